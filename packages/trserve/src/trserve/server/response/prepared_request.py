"""A request for text, checked against the served models: what the group will be asked for."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass

from trsched.request import GenerateRequest, SamplingParams
from trserve.http.errors import ApiError
from trserve.openai.request_limits import RequestLimits
from trserve.openai.schemas.generation_request import Extension, GenerationRequest
from trserve.server.group.served_group import ServedGroup
from trserve.server.response.context_length import max_output_tokens

_SEEDS = 1 << 64


@dataclass(frozen=True, slots=True)
class PreparedRequest:
    """One HTTP request for text.

    id: the response's.
    request_id: of the HTTP exchange, in headers and logs.
    created: when, in seconds since 1970.
    model: the served name.
    prompt_param: the field that holds the prompt.
    prompt_tokens: of all prompts; each counts once, whatever n.
    requests: one for each choice, in order of their indices.
    stops: stop strings.
    include_usage: a stream ends with the token counts.
    logprobs: whether the client wants them.
    model_per_token: whether the client wants to know which model made each token.
    """

    id: str
    request_id: str
    created: int
    model: str
    prompt_param: str
    prompt_tokens: int
    requests: list[GenerateRequest]
    stops: list[str]
    include_usage: bool
    logprobs: bool
    model_per_token: bool


def prepare_request(
    served: ServedGroup,
    body: GenerationRequest,
    prompts: Sequence[list[int]],
    *,
    id_prefix: str,
    prompt_param: str,
    logprobs: int | None,
    request_id: str,
) -> PreparedRequest:
    """Every prompt n times; choice i of a prompt uses seed + i (modulo 2^64).

    Raises ApiError (400) for what does not fit.
    """
    extension, limits, context = body.tokenrouter or Extension(), served.limits, served.context
    n = _choices_per_prompt(body, len(prompts), limits)
    timeout_s = _timeout(extension.timeout_s, limits)
    only = _only(extension.only, served.models)
    seed = secrets.randbits(64) if body.seed is None else body.seed
    requests = [
        GenerateRequest(
            request_id=request_id,
            prompt_ids=prompt,
            max_tokens=max_output_tokens(len(prompt), body.output_limit, context, prompt_param),
            sampling=SamplingParams(
                temperature=1.0 if body.temperature is None else float(body.temperature),
                top_p=1.0 if body.top_p is None else float(body.top_p),
                top_k=body.top_k or 0,
                seed=(seed + i) % _SEEDS,
                logprobs=logprobs,
            ),
            stop_token_ids=served.tokenizer.stop_ids,
            timeout_s=timeout_s,
            threshold=extension.threshold,
            only=only,
        )
        for prompt in prompts
        for i in range(n)
    ]
    options = body.stream_options
    return PreparedRequest(
        id=id_prefix + secrets.token_hex(16),
        request_id=request_id,
        created=int(time.time()),
        model=body.model,
        prompt_param=prompt_param,
        prompt_tokens=sum(map(len, prompts)),
        requests=requests,
        stops=body.stops,
        include_usage=bool(options is not None and options.include_usage),
        logprobs=logprobs is not None,
        model_per_token=extension.model_per_token,
    )


def _choices_per_prompt(body: GenerationRequest, prompts: int, limits: RequestLimits) -> int:
    n = body.n or 1
    if n > limits.max_n:
        message = f"'n' must be at most {limits.max_n} on this server."
        raise ApiError(400, message, param="n", code="invalid_value")
    if n * prompts > limits.max_choices:
        message = f"Prompts times 'n' must be at most {limits.max_choices} on this server."
        raise ApiError(400, message, param="prompt", code="invalid_value")
    return n


def _only(asked: str | None, models: Sequence[str]) -> int | None:
    if asked is None:
        return None
    if asked not in models:
        raise ApiError(
            400,
            f"'tokenrouter.only' must be one of the models {', '.join(map(repr, models))}.",
            param="tokenrouter.only",
            code="invalid_value",
        )
    return models.index(asked)


def _timeout(asked: float | None, limits: RequestLimits) -> float | None:
    if asked is None:
        return limits.default_timeout_s
    if limits.max_timeout_s is not None and asked > limits.max_timeout_s:
        raise ApiError(
            400,
            f"'tokenrouter.timeout_s' must be at most {limits.max_timeout_s:g} on this server.",
            param="tokenrouter.timeout_s",
            code="invalid_value",
        )
    return asked
