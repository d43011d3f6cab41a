/** The slider of a router's threshold, for the requests of this page only. */

import { element } from "./element.js";
import { significant } from "./format.js";

export class ThresholdControl {
  constructor(root) {
    this.root = root;
    this.shown = null;
    this.value = undefined; // for the request; undefined while it is the server's own
  }

  /**
   * model: the one chosen. threshold: `{name, value, low, high, meaning}` of its entry in /v1/models,
   * or nothing. The same as before leaves the slider where it is.
   */
  show(model, threshold, gateway) {
    const shown = JSON.stringify([model, threshold, gateway]);
    if (shown === this.shown) return;
    this.shown = shown;
    this.value = undefined;
    this.root.hidden = !threshold;
    if (!threshold) return;
    this.own = threshold.value; // null where a gateway's instances have different ones
    const { name, low, high, meaning } = threshold;
    this.input = element("input", {
      type: "range", id: "threshold-value", min: low, max: high, step: (high - low) / 100,
      "aria-describedby": "threshold-meaning", input: () => this.move(Number(this.input.value)),
    });
    this.output = element("output", { for: "threshold-value" });
    const where = gateway ? " Instances that are one model alone take no notice of it." : "";
    const owner = gateway ? "each instance’s own" : "the server’s value";
    const reset = element("button", { type: "button", class: "link", click: () => this.reset() }, owner);
    this.root.replaceChildren(
      element("label", { for: "threshold-value" }, `Threshold ${name}`), this.input, this.output, reset,
      element("p", { class: "hint", id: "threshold-meaning" }, meaning + where),
    );
    this.reset();
  }

  reset() {
    this.input.value = String(this.own ?? "");
    this.move(undefined);
  }

  move(value) {
    this.value = value === this.own ? undefined : value;
    const now = value ?? this.own;
    this.output.textContent = now === null ? "differs" : significant(now);
  }
}
