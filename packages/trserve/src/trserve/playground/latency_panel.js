/** p50, p90 and p99 of the last minute's requests, as a table with a mark on a common scale. */

import { element, svgElement } from "./element.js";
import { seconds } from "./format.js";
import { Panel } from "./panel.js";
import { buckets, percentile } from "./percentiles.js";

const SHARES = [0.5, 0.9, 0.99];
const SCALE = [0.001, 60]; // seconds, logarithmic

export class LatencyPanel {
  /** histograms: pairs of a name and the metric without `_bucket`. */
  constructor(hint, histograms) {
    this.histograms = histograms;
    this.panel = new Panel("Latency", hint, "wide");
    this.root = this.panel.root;
  }

  update(history) {
    const rows = this.histograms.map(([name, metric]) => {
      const increase = history.increase(`${metric}_bucket`, (labels) => labels.le ?? null);
      const list = buckets(increase);
      return { name, values: SHARES.map((share) => percentile(list, share)) };
    });
    if (rows.every(({ values }) => values[0] === null)) {
      this.panel.empty("No request ended in the last minute. Send one.");
      return;
    }
    const table = [["", "p50", "p90", "p99"], ...rows.map(({ name, values }) => [name, ...values.map(seconds)])];
    this.panel.draw(rows.map(row), new Map(), table);
  }
}

function row({ name, values }) {
  const figures = ["p50", "p90", "p99"].map((share, i) =>
    element("span", { class: "figure" }, element("small", {}, share), seconds(values[i])));
  return element("div", { class: "latency" }, element("h4", {}, name), element("p", { class: "figures" }, ...figures),
    ...(values[0] === null ? [] : [range(values)]));
}

// decoration: the figures above it say the same
function range(values) {
  const [low, high] = SCALE.map(Math.log10);
  const x = (value) => 4 + 352 * Math.min(1, Math.max(0, (Math.log10(value) - low) / (high - low)));
  const svg = svgElement("svg", { viewBox: "0 0 360 22", class: "range", "aria-hidden": "true" });
  svg.append(svgElement("line", { class: "grid", x1: 4, x2: 356, y1: 7, y2: 7 }));
  for (const tick of [0.001, 0.01, 0.1, 1, 10]) {
    svg.append(
      svgElement("line", { class: "grid", x1: x(tick), x2: x(tick), y1: 4, y2: 10 }),
      svgElement("text", { class: "tick", x: x(tick), y: 20, "text-anchor": tick === 0.001 ? "start" : "middle" }, seconds(tick)),
    );
  }
  svg.append(svgElement("line", { class: "span", x1: x(values[0]), x2: x(values[2]), y1: 7, y2: 7 }));
  for (const value of values) svg.append(svgElement("circle", { class: "mark", cx: x(value), cy: 7, r: 3.4 }));
  return svg;
}
