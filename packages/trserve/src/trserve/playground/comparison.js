/** The same prompt several times: what the columns are, and what their answers say together. */

import { counted, percent, significant } from "./format.js";
import { compared } from "./similarity.js";
import { PRESETS } from "./weights.js";

/** Of a token-routed group: all models together, then each alone. */
export function groupColumns(names) {
  return [
    { title: "Routed", note: names.join(" + "), extension: {} },
    ...names.map((name) => ({ title: `${name} alone`, note: "writes every token", extension: { only: name } })),
  ];
}

/** Of a gateway: what other weights would choose. */
export function weightColumns() {
  return ["quality", "latency", "cost"].map((name) =>
    ({ title: `For ${name}`, note: "", extension: {}, weights: PRESETS[name] }));
}

/** Routed beside the last model alone, in words; null before both are there. */
export function verdict(routed, alone) {
  if (!routed?.tokens.length || !alone?.tokens.length) return null;
  const name = routed.names.at(-1);
  const ratio = routed.tokensPerSecond / alone.tokensPerSecond;
  const pace = ratio >= 1 ? "" : ", so that routing does not pay here";
  const large = routed.counts.at(-1) / routed.tokens.length;
  const { share, prefix } = compared(routed, alone);
  const alike = prefix === 0 ? "they differ from the first token on" : `the first ${counted(prefix, "token")} are the same`;
  return `Together the models were ${significant(ratio)} times as fast as ${name} alone${pace}; it wrote ${percent(large)} of the `
    + `tokens. Of what it writes alone, ${percent(share)} is in the routed answer too, in the same order; ${alike}.`;
}

/** Of answers that came one by one: how long each took beside the slowest. */
export function paces(answers) {
  const longest = Math.max(...answers.map((answer) => answer?.seconds ?? 0));
  return answers.map((answer) => (answer && longest > 0 ? answer.seconds / longest : 0));
}
