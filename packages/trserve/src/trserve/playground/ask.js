/** Sends one request and shows its answer as it comes. */

import { Answer } from "./answer.js";
import { chatBody, openChat } from "./chat.js";

/**
 * request: the fields of `chatBody`. view: an AnswerView. lanes: Lanes for this answer, or null.
 * heard: called with the response's headers. Returns the answer, complete or stopped by `signal`;
 * throws ApiError.
 */
export async function ask(request, { server, view, lanes = null, heard = () => {}, signal }) {
  const answer = new Answer(server.namesOf(request.model), performance.now());
  view.begin(answer);
  lanes?.reset(answer.names, "Live: each token in the lane of the model that made it.");
  lanes?.begin();
  try {
    const { headers, chunks } = await openChat(chatBody(request), signal);
    heard(headers);
    if (server.gateway) {
      view.note.textContent = [`by ${headers.get("x-routebalance-instance")}`, headers.get("x-routebalance-model")].join(" · ");
      nameByHeaders(answer, headers, server, request.model);
    }
    for await (const chunk of chunks) {
      const tokens = answer.take(chunk, performance.now());
      view.add(tokens);
      if (answer.routed) tokens.forEach((token) => lanes?.add(token));
    }
    view.end();
    lanes?.end(answer.names);
  } catch (error) {
    lanes?.end(answer.names, "stopped");
    if (error.name !== "AbortError") throw error;
    view.end("stopped");
  }
  return answer;
}

// Behind a gateway the model is known with the headers: it may be a group, or write it all.
function nameByHeaders(answer, headers, server, asked) {
  const model = headers.get("x-routebalance-model") ?? "";
  const group = server.group(asked) ?? server.group(model);
  if (group) answer.names = group.models;
  else answer.writtenBy(server.concrete, server.place(model));
}
