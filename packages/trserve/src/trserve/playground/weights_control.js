/** Presets and three sliders that always sum to 1. */

import { element } from "./element.js";
import { percent } from "./format.js";
import { GOALS, PRESETS, moved, presetOf } from "./weights.js";

export class WeightsControl {
  /** changed: called after each change. */
  constructor(root, changed) {
    this.changed = changed;
    this.presets = Object.keys(PRESETS).map((name) =>
      element("button", { type: "button", class: "chip", click: () => this.set(PRESETS[name]) }, name));
    this.sliders = GOALS.map((goal) => element("input", {
      type: "range", id: `weight-${goal}`, min: 0, max: 1, step: 0.01,
      input: ({ target }) => this.set(moved(this.value, goal, Number(target.value))),
    }));
    this.outputs = GOALS.map((goal) => element("output", { for: `weight-${goal}` }));
    root.append(
      element("div", { class: "chips", role: "group", "aria-label": "Presets" }, ...this.presets),
      ...GOALS.map((goal, i) => element(
        "div", { class: `slider goal-${goal}` },
        element("label", { for: `weight-${goal}` }, goal), this.sliders[i], this.outputs[i],
      )),
    );
    this.value = PRESETS.balanced;
    this.tell();
  }

  set(weights) {
    this.value = weights;
    this.tell();
    this.changed();
  }

  tell() {
    const preset = presetOf(this.value);
    this.presets.forEach((button) => button.setAttribute("aria-pressed", String(button.textContent === preset)));
    GOALS.forEach((goal, i) => {
      this.sliders[i].value = String(this.value[goal]);
      this.outputs[i].textContent = percent(this.value[goal]);
    });
  }
}
