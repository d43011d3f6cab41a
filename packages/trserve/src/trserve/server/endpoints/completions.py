"""`POST /v1/completions`."""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter
from starlette.responses import Response

from trserve.http.errors import ApiError
from trserve.openai.documented_errors import documented_generation
from trserve.openai.schemas.completion_request import CompletionRequest
from trserve.openai.schemas.completion_response import Completion, CompletionChoice
from trserve.server.endpoints.dependencies import CurrentGroup, RequestId, require_model
from trserve.server.group.served_group import ServedGroup
from trserve.server.response.chunk_writer import COMPLETION_CHUNK, ChunkWriter
from trserve.server.response.context_length import check_least_length
from trserve.server.response.event_stream import EventStream
from trserve.server.response.logprobs import completion_logprobs
from trserve.server.response.prepared_request import prepare_request
from trserve.server.response.running_choice import RunningChoice
from trserve.server.response.running_request import RunningRequest
from trserve.server.response.tokenrouter_object import tokenrouter_object
from trserve.server.response.whole_response import WholeResponse

router = APIRouter(tags=["generation"])


@router.post(
    "/v1/completions",
    summary="Continue a text",
    response_model=Completion,
    responses=documented_generation("The texts"),
)
async def completions(
    body: CompletionRequest, served: CurrentGroup, request_id: RequestId
) -> Response:
    """OpenAI's text completions, for one prompt or several."""
    require_model(served, body.model)
    prepared = prepare_request(
        served,
        body,
        [await _encode(served, prompt, path) for path, prompt in _prompts(body)],
        id_prefix="cmpl-",
        prompt_param="prompt",
        logprobs=body.logprob_count,
        request_id=request_id,
    )
    running = RunningRequest(served, prepared)
    if not body.stream:
        return WholeResponse(running, Completion, _choice)
    logprobs = partial(completion_logprobs, served.tokenizer) if prepared.logprobs else None
    return EventStream(
        running, ChunkWriter(prepared, COMPLETION_CHUNK, served.fingerprint, logprobs)
    )


def _prompts(body: CompletionRequest) -> list[tuple[str, str | list[int]]]:
    prompts = body.prompts
    if len(prompts) == 1 and prompts[0] == body.prompt:
        return [("prompt", prompts[0])]
    return [(f"prompt[{i}]", prompt) for i, prompt in enumerate(prompts)]


async def _encode(served: ServedGroup, prompt: str | list[int], path: str) -> list[int]:
    tokenizer = served.tokenizer
    if isinstance(prompt, str):
        check_least_length(served, [prompt], path)
        return await tokenizer.encode_text(prompt)
    for i, token_id in enumerate(prompt):
        if token_id >= tokenizer.size:
            message = f"{path}[{i}]: token ids are from 0 to {tokenizer.size - 1}, not {token_id}."
            raise ApiError(400, message, param=f"{path}[{i}]", code="invalid_value")
    return prompt


def _choice(running: RunningRequest, choice: RunningChoice) -> CompletionChoice:
    text, tokens, offsets = choice.take()
    logprobs = None
    if running.prepared.logprobs:
        logprobs = completion_logprobs(running.served.tokenizer, tokens, offsets)
    return CompletionChoice(
        index=choice.index,
        text=text,
        logprobs=logprobs,
        finish_reason=choice.openai_finish_reason,
        tokenrouter=tokenrouter_object(running, choice, tokens),
    )
