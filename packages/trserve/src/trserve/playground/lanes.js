/** The picture of token-level routing: a lane for each model, each token in the lane of its maker. */

import { element } from "./element.js";
import { counted } from "./format.js";
import { FrameQueue } from "./frame_queue.js";

const SHOWN = 300; // tokens: the newest of a long answer
const EXPLAINED = {
  writing: "this model has the request and makes the next token",
  reading: "this model reads the prompt",
  pending: "another model has the request; what this one has read of it stays in its KV cache, so that it can go on as if it had never left",
  done: "the answer is complete",
  stopped: "the answer ended early",
};

export class Lanes {
  constructor(root) {
    this.root = root;
    this.title = element("h2", {}, "Who writes which token");
    this.note = element("p", { class: "hint" });
    this.heads = element("div", { class: "lane-heads" });
    this.track = element("div", { class: "track", "aria-hidden": "true" });
    this.scroll = element(
      "div", { class: "lane-scroll", tabindex: "0", role: "img", "aria-label": "No tokens yet" }, this.track,
    );
    root.replaceChildren(
      element("div", { class: "row" }, this.title, this.note),
      element("div", { class: "lanes" }, this.heads, this.scroll),
    );
    this.queue = new FrameQueue((tokens) => this.draw(tokens));
    this.reset([], "");
  }

  /** Empty lanes for these models; note: what is shown. */
  reset(names, note) {
    this.queue.flush();
    this.note.textContent = note;
    this.last = null;
    this.counts = [];
    this.track.replaceChildren();
    this.heads.replaceChildren();
    this.chips = [];
    this.names = [];
    this.grow(names);
    this.scroll.setAttribute("aria-label", "No tokens yet");
  }

  /** Before the first token the first model has the request. */
  begin() {
    this.setStates((lane) => (lane === 0 ? "reading" : "pending"));
  }

  add(token) {
    this.queue.put([token]);
  }

  draw(tokens) {
    if (tokens.length === 0) return;
    this.root.hidden = false;
    this.track.append(...tokens.map((token) => this.pill(token)));
    while (this.track.childElementCount > SHOWN) this.track.firstChild.remove();
    this.scroll.scrollLeft = this.scroll.scrollWidth;
    this.setStates((lane) => (lane === this.last ? "writing" : "pending"));
  }

  pill({ text, model }) {
    while (model >= this.names.length) this.grow([...this.names, `model ${this.names.length}`]);
    const token = element("span", { class: `lane-token m${model % 6}` }, visible(text));
    token.style.setProperty("--row", String(model));
    if (this.last !== null && this.last !== model) {
      token.classList.add(this.last < model ? "from-above" : "from-below");
      token.style.setProperty("--hops", String(Math.abs(model - this.last)));
    }
    this.counts[model] = (this.counts[model] ?? 0) + 1;
    this.last = model;
    return token;
  }

  /** state: "done" or "stopped". names: now known, where they weren't before. */
  end(names, state = "done") {
    this.queue.flush();
    this.grow(names);
    this.scroll.scrollLeft = this.scroll.scrollWidth; // names may take more room than before
    this.setStates(() => state);
    const said = this.names.map((name, i) => `${name} wrote ${counted(this.counts[i] ?? 0, "token")}`);
    this.scroll.setAttribute("aria-label", said.join(", "));
  }

  grow(names) {
    names.forEach((name, i) => {
      if (i < this.names.length) {
        this.heads.children[i].querySelector("b").textContent = name;
        return;
      }
      const chip = element("span", { class: "chip" });
      this.chips.push(chip);
      this.heads.append(element("div", { class: `lane-head m${i % 6}` }, element("b", { title: name }, name), chip));
    });
    this.names = [...names, ...this.names.slice(names.length)];
    this.scroll.style.setProperty("--lanes", String(Math.max(1, this.names.length)));
  }

  setStates(stateOf) {
    this.chips.forEach((chip, lane) => {
      const state = stateOf(lane);
      chip.textContent = state;
      chip.title = EXPLAINED[state];
      chip.dataset.state = state;
    });
  }
}

/** What a token looks like in its lane: it may be white space, or have no text of its own. */
function visible(text) {
  if (text === "") return "·";
  return text.trim() === "" ? text.replaceAll("\n", "⏎").replaceAll(/\s/g, "␣") : text.trim();
}
