/** One answer on the page: its text by model, a legend, its figures, and a look at each token. */

import { element } from "./element.js";
import { counted, percent, seconds, significant } from "./format.js";
import { FrameQueue } from "./frame_queue.js";
import { TokenCursor } from "./token_cursor.js";

const ENDS = { stop: "complete", length: "ended at the token limit" };

export class AnswerView {
  constructor({ title, note }) {
    this.state = element("span", { class: "pill" }, "waiting for its turn");
    this.note = element("p", { class: "hint" }, note);
    this.text = element("div", { class: "text", tabindex: "0", role: "group", "aria-label": `${title}: the text. Arrow keys go from token to token.` });
    this.legend = element("div", { class: "legend", role: "group", "aria-label": "Models. Press one to see its tokens alone." });
    this.figures = element("dl", { class: "figures" });
    this.inspector = element("p", { class: "inspector hint", "aria-live": "polite" });
    this.bar = element("div", { class: "pace", "aria-hidden": "true", hidden: true }, element("span", {}));
    this.problem = element("div", { class: "problem", hidden: true });
    this.root = element(
      "article", { class: "card answer", "aria-label": title },
      element("div", { class: "row" }, element("h2", {}, title), this.state),
      this.note, this.bar, this.figures, this.legend, this.text, this.problem, this.inspector,
    );
    this.cursor = new TokenCursor(this.text, this.inspector);
    this.queue = new FrameQueue((tokens) => this.draw(tokens));
    this.picked = null;
  }

  begin(answer) {
    this.answer = answer;
    this.say("reading the prompt", "live");
    this.queue.put([]);
  }

  add(tokens) {
    this.queue.put(tokens);
  }

  draw(tokens) {
    if (tokens.length > 0) this.say("writing", "live");
    this.text.append(...tokens.map(({ text, model, thought }) =>
      element("span", { class: `token m${model % 6}${thought ? " thought" : ""}`, title: this.answer.name(model) }, text)));
    this.refresh();
  }

  /** ended: how, where that isn't the answer's own reason to finish. */
  end(ended = ENDS[this.answer.finish] ?? "complete") {
    this.queue.flush();
    this.say(this.answer?.degraded ? `${ended}, degraded: a model failed on the way` : ended, "good");
    this.answer?.tokens.forEach(({ model }, i) => { this.text.children[i].title = this.answer.name(model); });
  }

  fail(error, retry) {
    this.queue.flush();
    this.say("failed", "bad");
    const wait = error.retryAfter ? `It asks to wait ${counted(error.retryAfter, "second")}.` : "";
    this.problem.replaceChildren(
      element("p", {}, element("b", {}, error.title ?? "The page failed"), element("br"), error.message),
      element("p", {}, wait),
      element("button", { type: "button", click: retry }, "Try again"),
    );
    this.problem.hidden = false;
    this.text.hidden = !this.answer?.tokens.length;
    this.figures.hidden = this.text.hidden;
  }

  /** How long it took beside the slowest, in a comparison. */
  showPace(share) {
    this.bar.hidden = false;
    this.bar.firstChild.style.width = `${100 * share}%`;
  }

  say(text, kind) {
    this.state.textContent = text;
    this.state.className = `pill ${kind}`;
  }

  refresh() {
    const { answer } = this;
    if (!answer) return; // it was never sent
    const figures = [
      ["first token", seconds(answer.ttft)],
      ["tokens/s", significant(answer.tokensPerSecond)],
      ["tokens", String(answer.tokenCount)],
      ["in all", seconds(answer.seconds)],
    ];
    if (answer.handoffs > 0) figures.push(["hand-offs", String(answer.handoffs)]);
    this.figures.replaceChildren(...figures.map(([name, value]) =>
      element("div", {}, element("dt", {}, name), element("dd", {}, value))));
    this.drawLegend();
    this.cursor.answer = answer;
  }

  drawLegend() {
    const { answer } = this;
    const total = answer.tokens.length;
    answer.counts.forEach((count, i) => {
      if (count === 0) return;
      let button = this.legend.querySelector(`[data-model="${i}"]`);
      if (button === null) {
        button = element("button", { type: "button", class: `model m${i % 6}`, "data-model": String(i), "aria-pressed": "false", click: () => this.pick(i) });
        const next = [...this.legend.children].find((other) => Number(other.dataset.model) > i);
        this.legend.insertBefore(button, next ?? null);
      }
      const share = total > 0 ? ` · ${percent(count / total)}` : "";
      const text = `${answer.name(i)} ${answer.routed ? `${count}${share}` : ""}`;
      if (button.textContent !== text) button.textContent = text;
    });
  }

  /** Show one model's tokens alone, or all again. */
  pick(model) {
    this.picked = this.picked === model ? null : model;
    this.text.dataset.picked = this.picked === null ? "" : String(this.picked % 6);
    for (const button of this.legend.children) {
      button.setAttribute("aria-pressed", String(button.dataset.model === String(this.picked)));
    }
  }
}
