/** A gateway's decision: every instance with its score, and what the score is made of. */

import { element } from "./element.js";
import { dollars, seconds, significant } from "./format.js";
import { GOALS } from "./weights.js";

export class DecisionView {
  constructor(root) {
    this.line = element("p", { class: "decided", role: "status" });
    this.sent = element("p", { class: "hint" });
    this.body = element("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Instances and their scores, a table" });
    const key = GOALS.map((goal) => element("li", {}, element("span", { class: `swatch goal-${goal}` }), goal));
    root.replaceChildren(
      element("div", { class: "row" }, element("h2", {}, "The decision"), element("ul", { class: "legend small" }, ...key)),
      this.line, this.body, this.sent,
    );
  }

  /** The answer of `POST /v1/route`. */
  show({ instance, model, reason, weights, candidates }) {
    this.line.replaceChildren(
      element("b", {}, instance ?? "No choice to show"), instance ? ` (${model}) would take it now: ${reason}` : `: ${reason}`,
    );
    const ordered = [...candidates].sort((a, b) => (b.score ?? -1) - (a.score ?? -1));
    const top = Math.max(1e-9, ...ordered.map(({ score }) => score ?? 0), 1);
    const head = ["instance", "model", "score", "", "quality", "cost", "time", "running", "waiting"];
    this.body.replaceChildren(element(
      "table", { class: "candidates" }, element("caption", { class: "unseen" }, "Candidates"),
      element("thead", {}, element("tr", {}, ...head.map((name) => element("th", { scope: "col" }, name)))),
      element("tbody", {}, ...ordered.map((each) => candidateRow(each, each.instance === instance, weights, top))),
    ));
  }

  /** Where a request really went, from its response's headers. */
  showSent(headers) {
    const instance = headers.get("x-routebalance-instance");
    if (instance === null) return;
    const parts = [headers.get("x-routebalance-model"), headers.get("x-routebalance-reason")].filter(Boolean);
    this.sent.textContent = `The last request went to ${instance}: ${parts.join(", ")}.`;
  }

  fail(error) {
    this.line.textContent = `No decision: ${error.message}`;
    this.body.replaceChildren();
  }
}

function candidateRow(each, chosen, weights, top) {
  const head = element("th", { scope: "row" }, each.instance, ...(chosen ? [" ", element("span", { class: "pill good" }, "chosen")] : []));
  const load = [each.running, each.waiting].map((count) => element("td", { class: "number" }, significant(count ?? null)));
  if (!each.candidate) {
    const why = element("td", { colspan: "5", class: "why" }, `not asked: ${each.why_not}`);
    return element("tr", { class: "out" }, head, element("td", {}, each.model), why, ...load);
  }
  const expected = [significant(each.quality ?? null), dollars(each.cost_usd ?? null), seconds(each.seconds ?? null)];
  return element(
    "tr", { class: chosen ? "chosen" : "" }, head, element("td", {}, each.model),
    element("td", { class: "number" }, (each.score ?? null) === null ? "–" : each.score.toFixed(3)),
    element("td", { class: "bar-cell" }, scoreBar(each.terms && weights ? contributions(each.terms, weights) : [], top)),
    ...expected.map((text) => element("td", { class: "number" }, text)), ...load,
  );
}

/** What each goal adds to the score. Terms are from 0 to 1, before they are weighted. */
export function contributions(terms, weights) {
  return GOALS.map((goal) => terms[goal] * weights[goal]);
}

// decoration: the score is beside it
function scoreBar(parts, top) {
  const bar = element("div", { class: "bar", "aria-hidden": "true" });
  parts.forEach((size, i) => {
    const part = element("span", { class: `goal-${GOALS[i]}` });
    part.style.width = `${(100 * size) / top}%`;
    bar.append(part);
  });
  return bar;
}
