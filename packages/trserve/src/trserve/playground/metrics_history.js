/** The metrics pages of the last minute, read as series over time. Times are in seconds. */

export const WINDOW = 60;

export class MetricsHistory {
  constructor(window = WINDOW) {
    this.window = window;
    this.pages = []; // {at, page}, oldest first
  }

  push(page, at) {
    this.pages.push({ at, page });
    while (this.pages[0].at < at - this.window) this.pages.shift();
  }

  /** Whether the newest page has a series whose name begins so. */
  has(prefix) {
    return [...(this.pages.at(-1)?.page.keys() ?? [])].some((name) => name.startsWith(prefix));
  }

  /** Of the newest page, by key. keyOf: labels to a key, or null to leave a sample out. */
  latest(name, keyOf) {
    return this.pages.length > 0 ? values(this.pages.at(-1).page, name, keyOf) : new Map();
  }

  /** A gauge over time: a map of each key to points `[at, value]`. */
  gauge(name, keyOf) {
    const lines = new Map();
    for (const { at, page } of this.pages) {
      for (const [key, value] of values(page, name, keyOf)) append(lines, key, [at, value]);
    }
    return lines;
  }

  /** A counter's rate a second over time, from each page to the next. */
  rate(name, keyOf) {
    const lines = new Map();
    this.pages.slice(1).forEach(({ at, page }, i) => {
      const before = this.pages[i];
      const old = values(before.page, name, keyOf);
      for (const [key, value] of values(page, name, keyOf)) {
        append(lines, key, [at, grown(old.get(key) ?? 0, value) / (at - before.at)]);
      }
    });
    return lines;
  }

  /** How much a counter grew from the oldest page to the newest, by key. */
  increase(name, keyOf) {
    const old = this.pages.length > 0 ? values(this.pages[0].page, name, keyOf) : new Map();
    return new Map([...this.latest(name, keyOf)].map(([key, value]) => [key, grown(old.get(key) ?? 0, value)]));
  }
}

// a counter that fell began anew: the server was started again
function grown(before, after) {
  return after >= before ? after - before : after;
}

function values(page, name, keyOf) {
  const found = new Map();
  for (const { labels, value } of page.get(name) ?? []) {
    const key = keyOf(labels);
    if (key !== null) found.set(key, (found.get(key) ?? 0) + value);
  }
  return found;
}

function append(lines, key, point) {
  if (!lines.has(key)) lines.set(key, []);
  lines.get(key).push(point);
}
