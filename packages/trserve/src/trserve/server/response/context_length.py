"""Whether a prompt and its output fit the models' context."""

from __future__ import annotations

from collections.abc import Sequence

from trserve.http.errors import ApiError
from trserve.server.group.served_group import ServedGroup


def check_least_length(served: ServedGroup, texts: Sequence[str], param: str) -> None:
    """Raises ApiError (400) where the texts are surely too long, before they are tokenized.

    param: the request's field at fault.
    """
    least = served.tokenizer.least_tokens(texts)
    if least > served.context:
        raise _too_long(served.context, f"at least {least} tokens of prompt", param)


def max_output_tokens(prompt: int, asked: int | None, context: int, param: str) -> int:
    """Most output tokens: what was asked for, else all that fit. Raises ApiError (400).

    prompt: tokens of the prompt.
    asked: output tokens that the request wants; None for as many as fit.
    context: tokens that prompt and output may have together.
    param: the request's field at fault.
    """
    room = context - prompt
    if prompt < 1:
        raise ApiError(400, f"'{param}' contains no tokens.", param=param, code="invalid_value")
    if room < (asked or 1):
        wanted = f" and {asked} of output" if asked is not None else ""
        raise _too_long(context, f"{prompt} tokens of prompt{wanted}", param)
    return room if asked is None else asked


def _too_long(context: int, wanted: str, param: str) -> ApiError:
    return ApiError(
        400,
        f"This model's maximum context length is {context} tokens; the request asks for {wanted}. "
        "Shorten the prompt or the output.",
        param=param,
        code="context_length_exceeded",
    )
