/** Lines over the last minute. */

import { axes } from "./chart_axes.js";
import { svgElement } from "./element.js";
import { significant } from "./format.js";

/**
 * lines: a map of each name to its points `[at, value]`. styles: a number for each name; lines differ
 * by dashes, too. steps: values hold until the next one. top: least height.
 */
export function lineChart(lines, { title, styles, unit = "", now, window, steps = false, top = 0, whole = false }) {
  const values = [...lines.values()].flat().map(([, value]) => value).filter(Number.isFinite);
  const said = [...lines].map(([name, points]) => `${name} ${significant(points.at(-1)[1])}${unit}`);
  const label = `${title}, now: ${said.join(", ") || "nothing yet"}`;
  const { svg, x, y } = axes({ label, top: Math.max(top, ...values), now, window, whole });
  for (const [name, points] of lines) {
    const style = `c${styles.get(name) % 6}`;
    const path = points.map(([at, value], j) => {
      const place = `${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
      if (j === 0) return `M${place}`;
      return steps ? `H${x(at).toFixed(1)}V${y(value).toFixed(1)}` : `L${place}`;
    });
    svg.append(svgElement("path", { class: `line ${style}`, d: path.join("") }));
    const [at, value] = points.at(-1);
    svg.append(svgElement("circle", { class: `dot ${style}`, cx: x(at), cy: y(value), r: 2.6 }));
  }
  return svg;
}
