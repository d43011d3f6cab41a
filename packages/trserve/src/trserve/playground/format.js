/** Numbers as people read them. An absent one is a dash. */

const NONE = "–";

export function seconds(value) {
  if (value === null || Number.isNaN(value)) return NONE;
  if (value < 0.001) return `${significant(value * 1e6)} µs`;
  if (value < 1) return `${significant(value * 1e3)} ms`;
  return `${significant(value)} s`;
}

export function percent(share) {
  return share === null ? NONE : `${Math.round(share * 100)} %`;
}

/** Two digits below ten, none of the decimals above a hundred. */
export function significant(value) {
  if (value === null || Number.isNaN(value)) return NONE;
  if (Number.isInteger(value)) return String(value);
  const size = Math.abs(value);
  return value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : size >= 0.1 ? 2 : 3);
}

/** "1 hand-off", "2 hand-offs". */
export function counted(count, noun) {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

/** US dollars; a request costs far less than a cent. */
export function dollars(value) {
  if (value === null) return NONE;
  return value === 0 ? "$0" : `$${value < 0.001 ? value.toExponential(1) : value.toFixed(4)}`;
}
