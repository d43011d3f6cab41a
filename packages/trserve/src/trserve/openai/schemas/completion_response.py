"""The answer of `POST /v1/completions`; chunks have the same form."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from trserve.openai.schemas.chat_response import FinishReason
from trserve.openai.schemas.choice_extension import ChoiceExtension, is_none
from trserve.openai.schemas.usage import Usage


class CompletionLogprobs(BaseModel):
    """One entry for each token.

    tokens: each token's text.
    token_logprobs: natural-log probabilities under the model that made the token.
    top_logprobs: the likeliest tokens in its place, with theirs.
    text_offset: characters from the start of the choice's text to the token.
    """

    tokens: list[str]
    token_logprobs: list[float]
    top_logprobs: list[dict[str, float]]
    text_offset: list[int]


class CompletionChoice(BaseModel):
    """One of the n continuations of one prompt.

    index: the prompt's number times n, plus the continuation's own.
    """

    index: int
    text: str
    logprobs: CompletionLogprobs | None
    finish_reason: FinishReason | None
    tokenrouter: ChoiceExtension | None = Field(None, exclude_if=is_none)


class Completion(BaseModel):
    """The whole response, or the data of one server-sent event."""

    id: str
    object: Literal["text_completion"] = "text_completion"
    created: int
    model: str
    system_fingerprint: str
    choices: list[CompletionChoice]
    usage: Usage | None = None
