/** The live panels of a token-routed group. */

import { percent, significant } from "./format.js";
import { LatencyPanel } from "./latency_panel.js";
import { lineChart } from "./line_chart.js";
import { Panel } from "./panel.js";
import { STATES, stateChart } from "./state_chart.js";
import { element } from "./element.js";

const MEANINGS = { running: "running", pending: "pending", waiting: "of the running, those that wait for a batch" };
const bySubserver = (labels) => labels.subserver ?? null;

export class GroupPanels {
  constructor() {
    this.states = new Panel("Requests by state", "Running: this model has the request. Pending: another one has it; its KV cache stays here, so that it goes on at once when it comes back.", "double");
    this.handoffs = new Panel("Hand-offs a second", "How often each model gives a request away.");
    this.tokens = new Panel("Tokens a second", "Tokens that each model made final.");
    this.routing = new Panel("p̂: chance of a hand-off", "The tuner's estimate that a step ends with its request at the other model.");
    this.thresholds = new Panel("B: batch threshold", "Requests that must wait before a model starts a batch. The server finds B by itself, from p̂ and the models' speed.");
    this.latency = new LatencyPanel("Of requests that ended in the last minute, from the server's histograms.", [
      ["Time to first token", "trserve_time_to_first_token_seconds"],
      ["Time per output token", "trserve_time_per_output_token_seconds"],
      ["Whole request", "trserve_request_duration_seconds"],
    ]);
    this.roots = [this.states, this.tokens, this.handoffs, this.routing, this.thresholds, this.latency].map((p) => p.root);
  }

  update(history, now) {
    const names = [...history.latest("trserve_subserver_up", bySubserver).keys()];
    const time = { now, window: history.window };
    const perSecond = { ...time, order: names, unit: "/s" };
    this.drawStates(history, time, names);
    drawLines(this.handoffs, history.rate("trserve_subserver_handoffs_sent_total", bySubserver), perSecond);
    drawLines(this.tokens, history.rate("trserve_subserver_tokens_committed_total", bySubserver), perSecond);
    this.drawRouting(history, time);
    const thresholds = history.gauge("trserve_subserver_batch_threshold", bySubserver);
    drawLines(this.thresholds, thresholds, { ...time, order: names, steps: true, whole: true, top: 2 });
    this.latency.update(history);
  }

  drawStates(history, time, names) {
    const gauges = names.map((name) =>
      history.gauge("trserve_subserver_requests", (labels) => (labels.subserver === name ? labels.state : null)));
    const top = Math.max(2, ...gauges.map(mostAtOnce));
    const charts = gauges.map((lines, color) => element(
      "div", {}, element("h4", {}, names[color]), stateChart(lines, { ...time, title: names[color], color, top }),
    ));
    const count = (lines, state) => significant(lines.get(state)?.at(-1)[1] ?? 0);
    const rows = names.map((name, i) => [name, ...STATES.map((state) => count(gauges[i], state))]);
    this.states.draw(charts, new Map(), [["model", ...STATES], ...rows]);
    this.states.legend.replaceChildren(...STATES.map((state) =>
      element("li", {}, element("span", { class: `swatch state-${state}` }), MEANINGS[state])));
  }

  drawRouting(history, time) {
    const lines = history.gauge("trserve_group_routing_probability", ({ subserver, to }) =>
      (subserver === to ? null : `${subserver} → ${to}`));
    if (lines.size === 0) {
      this.routing.empty("No estimate yet: every model must have stepped once, with delayed batching on “auto”.");
    } else {
      drawLines(this.routing, lines, { ...time, top: 1, read: percent });
    }
  }
}

/** Lines into a panel, and as its table. order: the names whose lines keep the same style in all panels. */
export function drawLines(panel, lines, { order = [], read = significant, unit = "", ...options }) {
  if (lines.size === 0) {
    panel.empty("Nothing to show yet.");
    return;
  }
  const known = [...new Set([...order, ...lines.keys()])];
  const shown = known.filter((name) => lines.has(name));
  const styles = new Map(shown.map((name) => [name, known.indexOf(name)]));
  const rows = shown.map((name) => {
    const points = lines.get(name);
    const last = points.map(([, value]) => value).filter(Number.isFinite);
    const mean = last.reduce((sum, value) => sum + value, 0) / Math.max(1, last.length);
    return [name, read(last.at(-1) ?? null), read(mean), read(Math.max(...last))];
  });
  const chart = lineChart(lines, { title: panel.title, styles, unit, ...options });
  panel.draw([chart], styles, [["", `now${unit}`, "mean of the minute", "most"], ...rows]);
}

function mostAtOnce(lines) {
  const columns = [lines.get("running") ?? [], lines.get("pending") ?? []];
  return Math.max(0, ...(columns[0] ?? []).map((_, i) => columns.reduce((sum, points) => sum + (points[i]?.[1] ?? 0), 0)));
}
