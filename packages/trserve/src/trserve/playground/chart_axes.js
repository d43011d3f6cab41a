/** The empty frame that all charts over time are drawn into: scales, grid, tick labels. */

import { svgElement } from "./element.js";
import { significant } from "./format.js";

const WIDTH = 360;
const HEIGHT = 132;
const LEFT = 38;
const RIGHT = 8;
const TOP = 8;
const BOTTOM = 20;

/**
 * A frame for values from 0 to at least `top`, over `window` seconds up to `now`.
 * Returns the svg and the scales x(at), y(value).
 */
export function axes({ label, top, now, window, whole = false }) {
  const ticks = niceTicks(top, whole);
  const x = (at) => LEFT + (WIDTH - LEFT - RIGHT) * (1 + (at - now) / window);
  const y = (value) => HEIGHT - BOTTOM - ((HEIGHT - TOP - BOTTOM) * value) / ticks.at(-1);
  const svg = svgElement("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label, class: "chart" });
  for (const tick of ticks) {
    svg.append(
      svgElement("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y(tick), y2: y(tick) }),
      svgElement("text", { class: "tick", x: LEFT - 6, y: y(tick) + 3.5, "text-anchor": "end" }, significant(tick)),
    );
  }
  for (const [ago, anchor] of [[window, "start"], [window / 2, "middle"], [0, "end"]]) {
    const text = ago === 0 ? "now" : `−${ago} s`;
    svg.append(svgElement("text", { class: "tick", x: x(now - ago), y: HEIGHT - 5, "text-anchor": anchor }, text));
  }
  return { svg, x, y };
}

/** Three to five ticks from 0 to at least `top`, in steps of 1, 2 or 5 times a power of ten. */
export function niceTicks(top, whole = false) {
  const raw = (top > 0 ? top : 1) / 4;
  const power = 10 ** Math.floor(Math.log10(raw));
  const nice = [1, 2, 5, 10].find((step) => step * power >= raw * (1 - 1e-9)) * power;
  const step = whole ? Math.max(1, Math.ceil(nice)) : nice;
  const count = Math.max(2, Math.ceil((top / step) * (1 - 1e-9)));
  return Array.from({ length: count + 1 }, (_, i) => Number((i * step).toPrecision(12)));
}
