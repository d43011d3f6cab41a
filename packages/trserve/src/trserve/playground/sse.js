/** Server-sent events: bytes in pieces of any size go in, the data of each event comes out. */

const LINE_END = /\r\n|\n|\r/;
const SURE_LINE_END = /\r\n|\n|\r(?!$)/; // a \r that came last may be half of \r\n

/** The data of each event of a response's body. Leaving the loop early closes the connection. */
export async function* eventData(body) {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  let data = [];
  try {
    for (;;) {
      const { done, value } = await reader.read();
      rest += done ? decoder.decode() : decoder.decode(value, { stream: true });
      const lines = rest.split(done ? LINE_END : SURE_LINE_END);
      rest = lines.pop();
      for (const line of lines) {
        if (line === "" && data.length > 0) {
          yield data.join("\n");
          data = [];
        } else if (line.startsWith("data:")) {
          data.push(line.slice(line[5] === " " ? 6 : 5));
        }
      }
      if (done) return; // an event without the empty line after it never happened
    }
  } finally {
    await reader.cancel().catch(() => {}); // it failed before: whoever reads was told
  }
}
