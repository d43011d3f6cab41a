/** How much of one answer another one holds. */

/** Tokens by id where both have ids, else words. */
export function compared(answer, reference) {
  const byId = [answer, reference].every((each) => each.tokens.every((token) => token.id !== null));
  const parts = (each) => (byId ? each.tokens.map((token) => token.id) : each.text.split(/(?<=\s)/));
  const [a, b] = [parts(answer), parts(reference)];
  return { prefix: commonPrefix(a, b), share: b.length > 0 ? commonSubsequence(a, b) / b.length : null };
}

export function commonPrefix(a, b) {
  let length = 0;
  while (length < Math.min(a.length, b.length) && a[length] === b[length]) length += 1;
  return length;
}

/** Length of the longest common subsequence, by rows of the textbook's table. */
export function commonSubsequence(a, b) {
  let row = new Array(b.length + 1).fill(0);
  for (const item of a) {
    const next = [0];
    for (let j = 0; j < b.length; j += 1) {
      next.push(item === b[j] ? row[j] + 1 : Math.max(row[j + 1], next[j]));
    }
    row = next;
  }
  return row[b.length];
}
