/** Percentiles from a histogram's buckets, as Prometheus' histogram_quantile computes them. */

/** Buckets `[bound, count]` by rising bound, counts cumulative, from a map of `le` to count. */
export function buckets(byBound) {
  return [...byBound]
    .map(([le, count]) => [le === "+Inf" ? Infinity : Number(le), count])
    .sort(([a], [b]) => a - b);
}

/**
 * The value below which a share of the observations lies, interpolated within its bucket; null
 * where there is none. Beyond the last finite bound nothing is known: then it is that bound.
 */
export function percentile(list, share) {
  const total = list.at(-1)?.[1] ?? 0;
  if (total <= 0) return null;
  const rank = share * total;
  const at = list.findIndex(([, count]) => count >= rank);
  const [bound, count] = list[at];
  const [lower, below] = at > 0 ? list[at - 1] : [0, 0];
  if (bound === Infinity) return lower;
  return count > below ? lower + (bound - lower) * ((rank - below) / (count - below)) : bound;
}
