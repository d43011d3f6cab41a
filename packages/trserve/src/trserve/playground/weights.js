/** What a gateway's decision weighs: quality, cost and latency, shares of 1. */

export const GOALS = ["quality", "cost", "latency"];

/** The same as rbalance's presets. */
export const PRESETS = {
  balanced: { quality: 0.5, cost: 0.2, latency: 0.3 },
  quality: { quality: 0.8, cost: 0.1, latency: 0.1 },
  latency: { quality: 0.1, cost: 0.1, latency: 0.8 },
  cost: { quality: 0.1, cost: 0.8, latency: 0.1 },
  uniform: { quality: 1 / 3, cost: 1 / 3, latency: 1 / 3 },
};

/** One share is moved; the two others keep their proportion, and all sum to 1. */
export function moved(weights, goal, share) {
  const [one, two] = GOALS.filter((each) => each !== goal);
  const others = weights[one] + weights[two];
  const first = (1 - share) * (others > 0 ? weights[one] / others : 0.5);
  return { [goal]: share, [one]: first, [two]: Math.max(0, 1 - share - first) };
}

/** The preset that these weights are, if any. */
export function presetOf(weights) {
  const same = (preset) => GOALS.every((goal) => Math.abs(preset[goal] - weights[goal]) < 1e-9);
  return Object.keys(PRESETS).find((name) => same(PRESETS[name])) ?? null;
}
