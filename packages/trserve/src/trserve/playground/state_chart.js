/** How many requests a subserver has in each state, a column a second. */

import { axes } from "./chart_axes.js";
import { svgElement } from "./element.js";

export const STATES = ["running", "pending", "waiting"]; // those that wait for a batch are running too

/**
 * lines: a map of each state to its points `[at, count]`, all at the same times. color: the
 * subserver's index. Running is full, pending hatched on top of it; a tick says how many wait.
 */
export function stateChart(lines, { title, color, now, window, top }) {
  const [running, pending, waiting] = STATES.map((state) => lines.get(state) ?? []);
  const said = STATES.map((state) => `${lines.get(state)?.at(-1)?.[1] ?? 0} ${state}`).join(", ");
  const { svg, x, y } = axes({ label: `${title}, now: ${said}`, top, now, window, whole: true });
  const hatch = `hatch-${color}`;
  const width = Math.max(2, x(now) - x(now - 1) - 1);
  const column = (at, from, count, attributes) => svgElement(
    "rect", { x: x(at) - width, y: y(from + count), width, height: y(from) - y(from + count), ...attributes },
  );
  svg.append(hatching(hatch, color));
  running.forEach(([at, count], i) => {
    const away = pending[i]?.[1] ?? 0;
    const queued = waiting[i]?.[1] ?? 0;
    if (count > 0) svg.append(column(at, 0, count, { class: `state running c${color % 6}` }));
    if (away > 0) svg.append(column(at, count, away, { class: `state c${color % 6}`, fill: `url(#${hatch})` }));
    if (queued > 0) svg.append(svgElement("line", { class: "queued", x1: x(at) - width, x2: x(at), y1: y(queued), y2: y(queued) }));
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
