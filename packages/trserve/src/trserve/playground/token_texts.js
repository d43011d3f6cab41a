/** The text of each token of a chunk. */

/**
 * text: the chunk's. models: one entry a token. entries: the chunk's logprobs, if it has some.
 * Where these don't add up to the text (a character in pieces, text that was held back), all of it
 * goes to the last token.
 */
export function tokenTexts(text, models, entries) {
  if (models.length > 1 && entries?.length === models.length) {
    const decoder = new TextDecoder();
    const pieces = entries.map((entry) => decoder.decode(new Uint8Array(entry.bytes ?? []), { stream: true }));
    if (pieces.join("") === text) return pieces;
  }
  return models.map((_, i) => (i === models.length - 1 ? text : ""));
}
