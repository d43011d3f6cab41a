/** Tells about one token of an answer: the one under the pointer, or where the arrow keys went. */

import { seconds } from "./format.js";

const STEPS = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };

export class TokenCursor {
  /** text: its children are the answer's tokens, in order. line: where to tell. */
  constructor(text, line) {
    this.text = text;
    this.line = line;
    this.answer = null;
    this.at = -1;
    text.addEventListener("pointerover", ({ target }) => this.show([...text.children].indexOf(target)));
    text.addEventListener("keydown", (event) => this.key(event));
    text.addEventListener("blur", () => this.mark(-1));
  }

  key(event) {
    const last = this.text.children.length - 1;
    const to = { Home: 0, End: last }[event.key] ?? (event.key in STEPS ? this.at + STEPS[event.key] : null);
    if (to === null || last < 0) return;
    event.preventDefault();
    const at = Math.min(last, Math.max(0, to));
    this.mark(at);
    this.show(at);
  }

  mark(at) {
    this.text.children[this.at]?.classList.remove("here");
    this.text.children[at]?.classList.add("here");
    this.at = at;
  }

  show(at) {
    const token = this.answer?.tokens[at];
    if (token === undefined) return;
    const before = at > 0 ? `${seconds((token.at - this.answer.tokens[at - 1].at) / 1000)} after the one before` : `${seconds(token.at / 1000)} after the request`;
    const id = token.id === null ? "" : `, id ${token.id}`;
    this.line.textContent = `Token ${at + 1} of ${this.answer.tokens.length}: ${JSON.stringify(token.text)} by ${this.answer.name(token.model)}${id}, ${before}`;
  }
}
