"""`POST /v1/chat/completions`."""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter
from starlette.responses import Response

from trserve.openai.documented_errors import documented_generation
from trserve.openai.schemas.chat_request import ChatCompletionRequest
from trserve.openai.schemas.chat_response import AnswerMessage, ChatChoice, ChatCompletion
from trserve.server.endpoints.dependencies import CurrentGroup, RequestId, require_model
from trserve.server.response.chunk_writer import CHAT_CHUNK, ChunkWriter
from trserve.server.response.context_length import check_least_length
from trserve.server.response.event_stream import EventStream
from trserve.server.response.logprobs import chat_logprobs
from trserve.server.response.prepared_request import prepare_request
from trserve.server.response.running_choice import RunningChoice
from trserve.server.response.running_request import RunningRequest
from trserve.server.response.tokenrouter_object import tokenrouter_object
from trserve.server.response.whole_response import WholeResponse

router = APIRouter(tags=["generation"])


@router.post(
    "/v1/chat/completions",
    summary="Continue a conversation",
    response_model=ChatCompletion,
    responses=documented_generation("The answer"),
)
async def chat_completions(
    body: ChatCompletionRequest, served: CurrentGroup, request_id: RequestId
) -> Response:
    """OpenAI's chat completions; what is not supported is refused by name."""
    require_model(served, body.model)
    messages = [
        {"role": message.role, "content": message.text}
        | ({} if message.name is None else {"name": message.name})
        for message in body.messages
    ]
    check_least_length(served, [message.text for message in body.messages], "messages")
    prepared = prepare_request(
        served,
        body,
        [await served.tokenizer.encode_chat(messages)],
        id_prefix="chatcmpl-",
        prompt_param="messages",
        logprobs=body.logprob_count,
        request_id=request_id,
    )
    running = RunningRequest(served, prepared)
    if not body.stream:
        return WholeResponse(running, ChatCompletion, _choice)
    logprobs = partial(chat_logprobs, served.tokenizer) if prepared.logprobs else None
    return EventStream(running, ChunkWriter(prepared, CHAT_CHUNK, served.fingerprint, logprobs))


def _choice(running: RunningRequest, choice: RunningChoice) -> ChatChoice:
    text, tokens, offsets = choice.take()
    logprobs = None
    if running.prepared.logprobs:
        logprobs = chat_logprobs(running.served.tokenizer, tokens, offsets)
    return ChatChoice(
        index=choice.index,
        message=AnswerMessage(content=text),
        logprobs=logprobs,
        finish_reason=choice.openai_finish_reason,
        tokenrouter=tokenrouter_object(running, choice, tokens),
    )
