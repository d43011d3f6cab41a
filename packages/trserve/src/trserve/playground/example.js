/** What the lanes show before the first request: one sentence, as a pair of models may write it. */

const SENTENCE = [
  ["The", 0], [" capital", 0], [" of", 0], [" France", 0], [" is", 0], [" Paris", 1], [",", 0], [" a", 0], [" city", 0],
  [" steeped", 1], [" in", 0], [" history", 1], [",", 0], [" art", 0], [" and", 0], [" culture", 1], [".", 0],
];
const PACE = { 0: 160, 1: 520 }; // milliseconds: the large model is slower

/** Plays once; returns a function that ends it. All at once where motion is unwanted. */
export function playExample(lanes, names) {
  lanes.reset(names, "An example. Send a prompt to see yours, live.");
  let timer = null;
  const rest = SENTENCE.map(([text, model]) => ({ text, model: Math.min(model, names.length - 1) }));
  const turn = () => {
    lanes.add(rest.shift());
    if (rest.length > 0) timer = setTimeout(turn, PACE[rest[0].model]);
    else lanes.end(names);
  };
  if (matchMedia("(prefers-reduced-motion: reduce)").matches) {
    rest.forEach((token) => lanes.add(token));
    lanes.end(names);
  } else {
    timer = setTimeout(turn, PACE[0]);
  }
  return () => clearTimeout(timer);
}
