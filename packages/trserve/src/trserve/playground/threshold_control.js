/** The slider of a router's threshold, for the requests of this page only. */

import { element } from "./element.js";
import { significant } from "./format.js";

export class ThresholdControl {
  constructor(root) {
    this.root = root;
    this.own = null;
    this.input = null;
  }

  /** threshold: `{name, value, low, high, meaning}` of the model's entry in /v1/models, or nothing. */
  show(threshold) {
    this.own = threshold ?? null;
    this.root.hidden = this.own === null;
    if (this.own === null) return;
    const { name, value, low, high, meaning } = this.own;
    this.input = element("input", {
      type: "range", id: "threshold-value", min: low, max: high, step: (high - low) / 100,
      "aria-describedby": "threshold-meaning", input: () => this.tell(),
    });
    this.input.value = String(value);
    this.output = element("output", { for: "threshold-value" });
    const reset = element("button", { type: "button", class: "link", click: () => this.reset() }, "the server’s value");
    this.root.replaceChildren(
      element("label", { for: "threshold-value" }, `Threshold ${name}`), this.input, this.output, reset,
      element("p", { class: "hint", id: "threshold-meaning" }, meaning),
    );
    this.tell();
  }

  /** For the request; undefined while it is the server's own. */
  get value() {
    if (this.own === null || Number(this.input.value) === this.own.value) return undefined;
    return Number(this.input.value);
  }

  reset() {
    this.input.value = String(this.own.value);
    this.tell();
  }

  tell() {
    this.output.textContent = significant(Number(this.input.value));
  }
}
