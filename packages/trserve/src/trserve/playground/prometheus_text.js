/** Prometheus' text format, version 0.0.4. */

const SAMPLE = /^([a-zA-Z_:][\w:]*)(?:\{((?:[^"}]|"(?:[^"\\]|\\.)*")*)\})?\s+(\S+)/;
const LABEL = /([a-zA-Z_]\w*)\s*=\s*"((?:[^"\\]|\\.)*)"/g;
const ESCAPED = { n: "\n", "\\": "\\", '"': '"' };
const NAMED = { "+Inf": Infinity, Inf: Infinity, "-Inf": -Infinity };

/** A map of the name of each series to its samples, `{labels, value}`. Other lines are skipped. */
export function parseMetrics(text) {
  const page = new Map();
  for (const line of text.split("\n")) {
    const match = line.startsWith("#") ? null : SAMPLE.exec(line);
    if (match === null) continue;
    const [, name, labels = "", value] = match;
    if (!page.has(name)) page.set(name, []);
    page.get(name).push({ labels: parseLabels(labels), value: NAMED[value] ?? Number(value) });
  }
  return page;
}

function parseLabels(text) {
  const labels = {};
  for (const [, name, value] of text.matchAll(LABEL)) {
    labels[name] = value.replace(/\\(.)/g, (_, character) => ESCAPED[character] ?? character);
  }
  return labels;
}
