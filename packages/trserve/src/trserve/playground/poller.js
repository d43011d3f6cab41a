/** Asks for something once a second while the page is seen. */

const PERIOD = 1000;

export class Poller {
  /** ask: an async function. Its failures are its own business. */
  constructor(ask) {
    this.ask = ask;
    this.timer = null;
    this.asking = false;
    document.addEventListener("visibilitychange", () => this.next(0));
  }

  start() {
    this.next(0);
  }

  next(delay) {
    clearTimeout(this.timer);
    if (document.hidden) return;
    this.timer = setTimeout(() => this.turn(), delay);
  }

  async turn() {
    if (this.asking) return; // the turn that is on its way calls for the next one
    this.asking = true;
    const started = performance.now();
    await this.ask();
    this.asking = false;
    this.next(Math.max(0, PERIOD - (performance.now() - started)));
  }
}
