"""`POST /v1/chat/completions`."""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter
from starlette.responses import Response

from trserve.openai.documented_errors import documented_generation
from trserve.openai.schemas.chat_request import ChatCompletionRequest
from trserve.openai.schemas.chat_response import AnswerMessage, ChatChoice, ChatCompletion
from trserve.server.endpoints.current_serving import CurrentServing, RequestId, require_model
from trserve.server.response.answer import EventStream, JsonAnswer
from trserve.server.response.choice import Choice
from trserve.server.response.choice_extension import choice_extension
from trserve.server.response.chunk_writer import CHAT_CHUNK, ChunkWriter
from trserve.server.response.generation import Generation
from trserve.server.response.logprobs import chat_logprobs
from trserve.server.response.order import place_order, too_long
from trserve.server.response.response_usage import response_usage

router = APIRouter(tags=["generation"])


@router.post(
    "/v1/chat/completions",
    summary="Continue a conversation",
    response_model=ChatCompletion,
    responses=documented_generation("The answer"),
)
async def chat_completions(
    body: ChatCompletionRequest, serving: CurrentServing, request_id: RequestId
) -> Response:
    """OpenAI's chat completions; what is not supported is refused by name."""
    require_model(serving, body.model)
    messages = [
        {"role": message.role, "content": message.text}
        | ({} if message.name is None else {"name": message.name})
        for message in body.messages
    ]
    least = serving.tokenizer.least_tokens([message.text for message in body.messages])
    if least > serving.context:
        raise too_long(serving.context, f"at least {least} tokens of prompt", "messages")
    order = place_order(
        serving,
        body,
        [await serving.tokenizer.encode_chat(messages)],
        id_prefix="chatcmpl-",
        prompt_param="messages",
        logprobs=body.logprob_count,
        request_id=request_id,
    )
    generation = Generation(serving, order)
    if not body.stream:
        return JsonAnswer(generation, _completion)
    logprobs = partial(chat_logprobs, serving.tokenizer) if order.logprobs else None
    return EventStream(generation, ChunkWriter(order, CHAT_CHUNK, serving.fingerprint, logprobs))


def _completion(generation: Generation) -> ChatCompletion:
    order, serving = generation.order, generation.serving
    return ChatCompletion(
        id=order.id,
        created=order.created,
        model=order.model,
        system_fingerprint=serving.fingerprint,
        choices=[_choice(generation, choice) for choice in generation.choices],
        usage=response_usage(generation),
    )


def _choice(generation: Generation, choice: Choice) -> ChatChoice:
    text, tokens, offsets = choice.take()
    logprobs = None
    if generation.order.logprobs:
        logprobs = chat_logprobs(generation.serving.tokenizer, tokens, offsets)
    return ChatChoice(
        index=choice.index,
        message=AnswerMessage(content=text),
        logprobs=logprobs,
        finish_reason=choice.good_end,
        tokenrouter=choice_extension(generation, choice, tokens),
    )
