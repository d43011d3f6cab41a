/** The live panels of a gateway. */

import { element } from "./element.js";
import { seconds, significant } from "./format.js";
import { drawLines } from "./group_panels.js";
import { LatencyPanel } from "./latency_panel.js";
import { Panel } from "./panel.js";

const byInstance = (labels) => labels.instance ?? null;
const GAUGES = ["up", "running", "waiting", "pending_tokens", "telemetry_age_seconds"];

export class GatewayPanels {
  constructor() {
    this.instances = new Panel("Instances", "What each instance has to do now, and how old that news is.", "wide");
    this.table = element("table", { class: "instances" });
    this.scroll = element("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Instances, a table" }, this.table);
    this.decisions = new Panel("Decisions a second", "Requests sent to each instance.");
    this.load = new Panel("Requests in each instance", "Running and waiting, as the gateway knows it.");
    this.tokens = new Panel("Tokens a second", "Passed on from each instance.");
    this.latency = new LatencyPanel("Of requests that ended in the last minute, from the gateway's histograms.", [
      ["Time to first token", "trgateway_time_to_first_token_seconds"],
      ["Whole request", "trgateway_request_duration_seconds"],
      ["The decision itself", "trgateway_decision_seconds"],
    ]);
    this.roots = [this.instances, this.decisions, this.load, this.tokens, this.latency].map((panel) => panel.root);
  }

  update(history, now) {
    const order = [...history.latest("trgateway_instance_up", byInstance).keys()];
    const time = { now, window: history.window, order };
    this.drawInstances(history);
    const perSecond = { ...time, unit: "/s" };
    drawLines(this.decisions, history.rate("trgateway_decisions_total", byInstance), perSecond);
    drawLines(this.tokens, history.rate("trgateway_tokens_total", byInstance), perSecond);
    const load = history.gauge("trgateway_instance_running", byInstance);
    const waiting = history.gauge("trgateway_instance_waiting", byInstance);
    for (const [name, points] of load) {
      const more = new Map(waiting.get(name) ?? []);
      load.set(name, points.map(([at, value]) => [at, value + (more.get(at) ?? 0)]));
    }
    drawLines(this.load, load, { ...time, whole: true, top: 2 });
    this.latency.update(history);
  }

  drawInstances(history) {
    const [up, running, waiting, pending, age] = GAUGES.map((name) =>
      history.latest(`trgateway_instance_${name}`, byInstance));
    if (up.size === 0) {
      this.instances.empty("The gateway has no instance yet.");
      return;
    }
    const models = history.latest("trgateway_instance_up", ({ instance, model }) => `${instance}\n${model}`);
    const modelOf = new Map([...models.keys()].map((key) => key.split("\n")));
    const most = Math.max(1, ...[...up.keys()].map((name) => (running.get(name) ?? 0) + (waiting.get(name) ?? 0)));
    const rows = [...up].map(([name, isUp]) => element(
      "tr", { class: isUp ? "" : "down" },
      element("th", { scope: "row" }, name),
      element("td", {}, modelOf.get(name) ?? "–"),
      element("td", {}, element("span", { class: isUp ? "pill good" : "pill bad" }, isUp ? "up" : "down")),
      element("td", { class: "bar-cell" }, loadBar(running.get(name) ?? 0, waiting.get(name) ?? 0, most)),
      ...[running, waiting, pending].map((gauge) => element("td", { class: "number" }, significant(gauge.get(name) ?? null))),
      element("td", { class: "number" }, seconds(age.get(name) ?? null)),
    ));
    const head = ["instance", "model", "state", "load", "running", "waiting", "pending tokens", "news of"];
    this.table.replaceChildren(
      element("caption", { class: "unseen" }, "Instances"),
      element("thead", {}, element("tr", {}, ...head.map((name) => element("th", { scope: "col" }, name)))),
      element("tbody", {}, ...rows),
    );
    if (!this.scroll.isConnected) this.instances.body.replaceChildren(this.scroll); // which keeps its focus
    this.instances.details.hidden = true; // it is a table
  }
}

// decoration: the numbers beside it say the same
function loadBar(running, waiting, most) {
  const bar = element("div", { class: "bar", "aria-hidden": "true" });
  for (const [kind, count] of [["running", running], ["waiting", waiting]]) {
    const part = element("span", { class: kind });
    part.style.width = `${(100 * count) / most}%`;
    bar.append(part);
  }
  return bar;
}
