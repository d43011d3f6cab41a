/** The page: what the controls say goes into requests, what comes back onto the page. */

import { apiKey, post } from "./api.js";
import { AnswerView } from "./answer_view.js";
import { ask } from "./ask.js";
import { chatBody } from "./chat.js";
import { groupColumns, paces, verdict, weightColumns } from "./comparison.js";
import { DecisionView } from "./decision_view.js";
import { element } from "./element.js";
import { playExample } from "./example.js";
import { Lanes } from "./lanes.js";
import { showLive } from "./live.js";
import { discover } from "./server.js";
import { ThresholdControl } from "./threshold_control.js";
import { WeightsControl } from "./weights_control.js";

const EXAMPLES = ["What is the capital of France?", "Explain why the sky is blue.", "Write a short story about a lighthouse."];
const EXPLAIN_DELAY = 150; // milliseconds without a change before the decision is asked for anew

const byId = (id) => document.getElementById(id);
const [form, prompt, send, compare, stop] = ["ask", "prompt", "send", "compare", "stop"].map(byId);
const lanes = new Lanes(byId("lanes"));
const decision = new DecisionView(byId("decision"));
const threshold = new ThresholdControl(byId("threshold"));
const weights = new WeightsControl(byId("weights"), () => explainSoon());

let server = null;
let running = null; // the AbortController of what runs
let endExample = () => {};
let explainTimer = null;
let explaining = new AbortController(); // of the decision that was asked for last

// ---------------------------------------------------------------- the server

/** Also again and again: what the user chose and what was answered stay. */
async function connect() {
  try {
    server = await discover();
  } catch (error) {
    complain(error);
    return;
  }
  complain(null);
  document.querySelectorAll(".only-gateway").forEach((node) => { node.hidden = !server.gateway; });
  document.querySelectorAll(".only-group").forEach((node) => { node.hidden = server.gateway; });
  showModels(server.ids);
  modelChosen();
  if (byId("answers").childElementCount > 0) return; // the lanes are the last answer's
  byId("lanes").hidden = server.gateway;
  endExample();
  if (!server.gateway && server.names.length > 1) endExample = playExample(lanes, server.names);
}

function showModels(ids) {
  const select = byId("model");
  const chosen = select.value;
  if (ids.join("\n") === [...select.options].map((option) => option.value).join("\n")) return; // it may be open
  select.replaceChildren(...ids.map((id) => element("option", { value: id, selected: id === chosen }, id)));
}

function modelChosen() {
  const group = server.group(byId("model").value);
  const served = group ? `${byId("model").value} · ${group.router}` : byId("model").value;
  byId("server").textContent = server.gateway ? "gateway" : served;
  byId("server").className = "pill good";
  threshold.show(byId("model").value, group?.threshold, server.gateway);
  compare.hidden = columns().length < 2;
  byId("pace-control").hidden = compare.hidden;
  explainSoon();
}

/** Say what is wrong with the server; null: nothing. */
function complain(error) {
  const notice = byId("notice");
  notice.hidden = error === null;
  if (error === null) return;
  notice.replaceChildren(element("b", {}, error.title), ". ", error.message);
  byId("server").textContent = error.status === 401 ? "locked" : "no answer";
  byId("server").className = "pill bad";
  if (error.status === 401) byId("key-menu").open = true;
}

// ---------------------------------------------------------------- requests

function columns() {
  const group = server.group(byId("model").value);
  if (server.gateway) return byId("model").value === "auto" ? weightColumns() : []; // one model alone has its own name there
  return group ? groupColumns(group.models) : [];
}

function request(column) {
  const model = byId("model").value;
  const own = threshold.value;
  return {
    model,
    prompt: prompt.value,
    maxTokens: Number(byId("max-tokens").value),
    temperature: Number(byId("temperature").value),
    extension: { ...(own !== undefined && !column.extension.only && { threshold: own }), ...column.extension },
    logprobs: !server.gateway || server.group(model) !== null,
    weights: server.gateway ? (column.weights ?? weights.value) : null,
  };
}

/** Run these columns; again: what to do where one failed. */
async function run(list, again) {
  if (server === null || running !== null || !form.reportValidity()) return;
  if (prompt.value.trim() === "") prompt.value = EXAMPLES[0];
  endExample();
  const views = list.map((column) => new AnswerView(column));
  byId("answers").replaceChildren(...views.map((view) => view.root));
  byId("answers").classList.toggle("several", views.length > 1);
  byId("verdict").hidden = true;
  byId("lanes").hidden = server.gateway; // there they show up with the first token of a group
  running = new AbortController();
  busy(true);
  const answers = [];
  const one = async (column, i) => {
    if (running.signal.aborted) return views[i].end("not sent");
    const around = { server, view: views[i], lanes: i === 0 ? lanes : null, signal: running.signal };
    try {
      answers[i] = await ask(request(column), { ...around, heard: (headers) => decision.showSent(headers) });
    } catch (error) {
      views[i].fail(error, again);
      if (error.status === 401) complain(error);
    }
    return undefined;
  };
  if (byId("pace").value === "together") {
    await Promise.all(list.map(one));
  } else {
    for (let i = 0; i < list.length; i += 1) await one(list[i], i);
  }
  const stopped = running.signal.aborted;
  running = null;
  busy(false);
  conclude(list, views, answers, stopped);
  explainSoon(); // the instances have other loads now
}

function conclude(list, views, answers, stopped) {
  const failed = answers.filter(Boolean).length < list.length && !stopped;
  byId("status").textContent = stopped ? "Stopped." : failed ? "Failed, see below." : summary(answers);
  if (list.length < 2) return;
  paces(answers).forEach((share, i) => views[i].showPace(share));
  const text = server.gateway ? null : verdict(answers[0], answers[list.length - 1]);
  byId("verdict").hidden = text === null || stopped;
  byId("verdict").textContent = text ?? "";
}

function summary([answer]) {
  const parts = answer.counts.map((count, i) => `${answer.name(i)} ${count}`);
  return `Answer complete. ${answer.routed ? `Tokens: ${parts.join(", ")}.` : ""}`;
}

function busy(now) {
  stop.disabled = !now;
  send.disabled = now;
  compare.disabled = now;
  if (now) byId("status").textContent = "Writing …";
}

const single = () => run([{ title: "Answer", note: "", extension: {} }], single);
const sideBySide = () => { if (!compare.hidden) run(columns(), sideBySide); };

// ---------------------------------------------------------------- a gateway's decision

function explainSoon() {
  clearTimeout(explainTimer);
  if (server?.gateway) explainTimer = setTimeout(explain, EXPLAIN_DELAY);
}

async function explain() {
  explaining.abort();
  explaining = new AbortController();
  const body = { ...request({ extension: {} }), prompt: prompt.value || EXAMPLES[0] };
  try {
    decision.show(await (await post("v1/route", chatBody(body), explaining.signal)).json());
  } catch (error) {
    if (error.name !== "AbortError") decision.fail(error);
  }
}

// ---------------------------------------------------------------- events

form.addEventListener("submit", (event) => { event.preventDefault(); single(); });
compare.addEventListener("click", sideBySide);
stop.addEventListener("click", () => running?.abort());
prompt.addEventListener("input", explainSoon);
byId("model").addEventListener("change", modelChosen);
byId("model").addEventListener("focus", connect); // a gateway's models come and go
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") running?.abort();
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) (event.shiftKey ? sideBySide : single)();
});
byId("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  apiKey.set(byId("key").value.trim());
  byId("key-menu").open = false;
  connect();
});
byId("key").value = apiKey.get();
byId("examples").append(...EXAMPLES.map((text) => element("button", {
  type: "button", class: "chip", click: () => { prompt.value = text; explainSoon(); prompt.focus(); },
}, text)));

showLive(byId("panels"), byId("live-state"), (error) => (error === null ? connect() : complain(error)));
connect();
