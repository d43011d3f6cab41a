/** One streamed chat request. */

import { ApiError, fromObject, post } from "./api.js";
import { eventData } from "./sse.js";

/**
 * The request's body.
 * extension: this request's fields of `tokenrouter`, or null to send none. logprobs: asked for
 * because they hold each token's own text, where a chunk has several.
 */
export function chatBody({ model, prompt, maxTokens, temperature, extension, logprobs, weights }) {
  return {
    model,
    messages: [{ role: "user", content: prompt }],
    max_tokens: maxTokens,
    temperature,
    stream: true,
    stream_options: { include_usage: true },
    ...(logprobs && { logprobs }),
    ...(extension && { tokenrouter: { model_per_token: true, ...extension } }),
    ...(weights && { routebalance: { weights, explain: true } }),
  };
}

/** The response's headers and its chunks. Throws ApiError, also while chunks are read. */
export async function openChat(body, signal) {
  const response = await postAccepted(body, signal);
  return { headers: response.headers, chunks: chunks(response.body) };
}

// Behind a gateway may be a server that refuses fields it doesn't know: it is asked in plain OpenAI.
async function postAccepted(body, signal) {
  try {
    return await post("v1/chat/completions", body, signal);
  } catch (error) {
    const { tokenrouter, ...plain } = body;
    const foreign = body.routebalance && tokenrouter && !("only" in tokenrouter || "threshold" in tokenrouter);
    if (!foreign || error.status !== 400 || !`${error.param} ${error.message}`.includes("tokenrouter")) throw error;
    return post("v1/chat/completions", plain, signal);
  }
}

// Complete is what says so: by [DONE], or where a server leaves that out, by why a choice finished.
async function* chunks(stream) {
  let finished = false;
  try {
    for await (const data of eventData(stream)) {
      if (data === "[DONE]") return;
      const chunk = JSON.parse(data);
      if (chunk.error) throw fromObject(500, chunk.error);
      finished ||= (chunk.choices ?? []).some((choice) => choice.finish_reason);
      yield chunk;
    }
  } catch (error) {
    if (error.name === "AbortError" || error instanceof ApiError) throw error;
    throw new ApiError(200, `It cannot be read to its end: ${error.message}.`);
  }
  if (!finished) throw new ApiError(200, "The server ended it before it was complete.");
}
