/** Work that is done once a frame: tokens come faster than a page can be laid out. */

export class FrameQueue {
  /** work: called with all that was put in since the frame before. */
  constructor(work) {
    this.work = work;
    this.items = [];
    this.frame = null;
  }

  put(items) {
    this.items.push(...items);
    this.frame ??= requestAnimationFrame(() => this.flush());
  }

  /** Do now what there is to do; a hidden page has no frames. */
  flush() {
    cancelAnimationFrame(this.frame);
    this.frame = null;
    this.work(this.items.splice(0));
  }
}
