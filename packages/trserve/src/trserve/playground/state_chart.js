/** How many requests a subserver has in each state, a column a second. */

import { axes } from "./chart_axes.js";
import { svgElement } from "./element.js";

export const STATES = ["running", "pending", "waiting"]; // from the bottom up

/**
 * lines: a map of each state to its points `[at, count]`, all at the same times. color: the
 * subserver's index. States differ by filling: full, hatched, outlined.
 */
export function stateChart(lines, { title, color, now, window, top }) {
  const points = STATES.map((state) => lines.get(state) ?? []);
  const said = STATES.map((state, i) => `${points[i].at(-1)?.[1] ?? 0} ${state}`).join(", ");
  const { svg, x, y } = axes({ label: `${title}, now: ${said}`, top, now, window, whole: true });
  const hatch = `hatch-${color}`;
  svg.append(hatching(hatch, color));
  const width = Math.max(2, x(now) - x(now - 1) - 1);
  points[0].forEach(([at], column) => {
    let below = 0;
    STATES.forEach((state, i) => {
      const count = points[i][column]?.[1] ?? 0;
      if (count === 0) return;
      const place = { x: x(at) - width, y: y(below + count), width, height: y(below) - y(below + count) };
      const fill = state === "pending" ? { fill: `url(#${hatch})` } : {};
      svg.append(svgElement("rect", { class: `state ${state} c${color % 6}`, ...place, ...fill }));
      below += count;
    });
  });
  return svg;
}

function hatching(id, color) {
  return svgElement(
    "defs", {},
    svgElement(
      "pattern", { id, width: 4, height: 4, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
      svgElement("rect", { class: `hatch c${color % 6}`, width: 1.8, height: 4 }),
    ),
  );
}
