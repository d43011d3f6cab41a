"""`POST /v1/completions`."""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter
from starlette.responses import Response

from trserve.http.errors import ApiError
from trserve.openai.documented_errors import documented_generation
from trserve.openai.schemas.completion_request import CompletionRequest
from trserve.openai.schemas.completion_response import Completion, CompletionChoice
from trserve.server.endpoints.current_serving import CurrentServing, RequestId, require_model
from trserve.server.response.answer import EventStream, JsonAnswer
from trserve.server.response.choice import Choice
from trserve.server.response.choice_extension import choice_extension
from trserve.server.response.chunk_writer import COMPLETION_CHUNK, ChunkWriter
from trserve.server.response.generation import Generation
from trserve.server.response.logprobs import completion_logprobs
from trserve.server.response.order import place_order, too_long
from trserve.server.response.response_usage import response_usage
from trserve.server.serving import Serving

router = APIRouter(tags=["generation"])


@router.post(
    "/v1/completions",
    summary="Continue a text",
    response_model=Completion,
    responses=documented_generation("The texts"),
)
async def completions(
    body: CompletionRequest, serving: CurrentServing, request_id: RequestId
) -> Response:
    """OpenAI's text completions, for one prompt or several."""
    require_model(serving, body.model)
    order = place_order(
        serving,
        body,
        [await _encode(serving, prompt, path) for path, prompt in _prompts(body)],
        id_prefix="cmpl-",
        prompt_param="prompt",
        logprobs=body.logprob_count,
        request_id=request_id,
    )
    generation = Generation(serving, order)
    if not body.stream:
        return JsonAnswer(generation, _completion)
    logprobs = partial(completion_logprobs, serving.tokenizer) if order.logprobs else None
    return EventStream(
        generation, ChunkWriter(order, COMPLETION_CHUNK, serving.fingerprint, logprobs)
    )


def _prompts(body: CompletionRequest) -> list[tuple[str, str | list[int]]]:
    prompts = body.prompts
    if len(prompts) == 1 and prompts[0] == body.prompt:
        return [("prompt", prompts[0])]
    return [(f"prompt[{i}]", prompt) for i, prompt in enumerate(prompts)]


async def _encode(serving: Serving, prompt: str | list[int], path: str) -> list[int]:
    tokenizer = serving.tokenizer
    if isinstance(prompt, str):
        least = tokenizer.least_tokens([prompt])
        if least > serving.context:
            raise too_long(serving.context, f"at least {least} tokens of prompt", path)
        return await tokenizer.encode_text(prompt)
    for i, token_id in enumerate(prompt):
        if token_id >= tokenizer.size:
            message = f"{path}[{i}]: token ids are from 0 to {tokenizer.size - 1}, not {token_id}."
            raise ApiError(400, message, param=f"{path}[{i}]", code="invalid_value")
    return prompt


def _completion(generation: Generation) -> Completion:
    order, serving = generation.order, generation.serving
    return Completion(
        id=order.id,
        created=order.created,
        model=order.model,
        system_fingerprint=serving.fingerprint,
        choices=[_choice(generation, choice) for choice in generation.choices],
        usage=response_usage(generation),
    )


def _choice(generation: Generation, choice: Choice) -> CompletionChoice:
    text, tokens, offsets = choice.take()
    logprobs = None
    if generation.order.logprobs:
        logprobs = completion_logprobs(generation.serving.tokenizer, tokens, offsets)
    return CompletionChoice(
        index=choice.index,
        text=text,
        logprobs=logprobs,
        finish_reason=choice.good_end,
        tokenrouter=choice_extension(generation, choice, tokens),
    )
