/** One answer in the making: chunks go in, tokens with their models and the figures come out. */

import { tokenTexts } from "./token_texts.js";

/** A token. at: milliseconds since the request was sent. thought: of the reasoning before the answer. */
class Token {
  constructor(text, model, id, at, thought) {
    Object.assign(this, { text, model, id, at, thought });
  }
}

export class Answer {
  /** names: of the models, by index. started: of performance.now(). */
  constructor(names, started) {
    this.names = names;
    this.tokens = [];
    this.finish = null;
    this.usage = null;
    this.degraded = false;
    this.milliseconds = 0;
    this.started = started;
    this.whole = null;
    this.routed = false; // chunks say who made them
  }

  /** One model of these writes all of it, unless chunks say otherwise. */
  writtenBy(names, model) {
    this.names = names;
    this.whole = model;
  }

  /** Take a chunk in; the tokens that are new. */
  take(chunk, now) {
    this.milliseconds = now - this.started;
    if (chunk.usage) this.takeUsage(chunk.usage);
    const before = this.tokens.length;
    for (const choice of chunk.choices ?? []) this.takeChoice(choice);
    return this.tokens.slice(before);
  }

  name(model) {
    return this.names[model] ?? `model ${model}`;
  }

  get text() {
    return this.tokens.map((token) => token.text).join("");
  }

  /** Tokens by model, for every model there is. */
  get counts() {
    const counts = this.names.map(() => 0);
    for (const { model } of this.tokens) counts[model] = (counts[model] ?? 0) + 1;
    return Array.from(counts, (count) => count ?? 0);
  }

  /** As the server counts them; until it says, the changes of model that were seen. */
  get handoffs() {
    const told = this.usage?.tokenrouter?.handoffs;
    return told ?? this.tokens.filter((token, i) => i > 0 && token.model !== this.tokens[i - 1].model).length;
  }

  /** A chunk of a server that doesn't tell tokens may hold several: only its usage counts them. */
  get tokenCount() {
    return this.routed ? this.tokens.length : (this.usage?.completion_tokens ?? this.tokens.length);
  }

  /** Seconds to the first token; null before. */
  get ttft() {
    return this.tokens.length > 0 ? this.tokens[0].at / 1000 : null;
  }

  get seconds() {
    return this.milliseconds / 1000;
  }

  /** From the request to the end, so reading the prompt counts. */
  get tokensPerSecond() {
    return this.tokenCount > 0 ? this.tokenCount / this.seconds : null;
  }

  takeUsage(usage) {
    this.usage = usage;
    const told = Object.keys(usage.tokenrouter?.completion_tokens_by_model ?? {});
    if (this.routed && told.length > this.names.length) this.names = told;
  }

  takeChoice(choice) {
    const extension = choice.tokenrouter ?? {};
    this.finish = choice.finish_reason ?? this.finish;
    this.degraded ||= extension.degraded === true;
    const delta = choice.delta ?? {};
    const text = delta.content ?? "";
    if (extension.models) {
      if (this.whole !== null) this.writtenBy([], null); // a group after all, its names come with the usage
      this.routed = true;
      const texts = tokenTexts(text, extension.models, choice.logprobs?.content);
      extension.models.forEach((model, i) => this.add(texts[i], model, extension.token_ids[i]));
    } else {
      const thought = delta.reasoning_content ?? delta.reasoning; // which name depends on the server
      const model = this.whole ?? this.tokens.at(-1)?.model ?? 0;
      if (thought) this.add(thought, model, null, true);
      if (text) this.add(text, model, null);
    }
  }

  add(text, model, id, thought = false) {
    this.tokens.push(new Token(text, model, id, this.milliseconds, thought));
  }
}
