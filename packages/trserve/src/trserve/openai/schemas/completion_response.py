"""The answer of `POST /v1/completions`; chunks have the same form."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from trserve.openai.schemas.chat_response import FinishReason
from trserve.openai.schemas.choice_extension import ChoiceExtension, is_none
from trserve.openai.schemas.usage import Usage


class CompletionLogprobs(BaseModel):
    """One entry for each token; text_offset counts characters from the start of the text."""

    tokens: list[str]
    token_logprobs: list[float]
    top_logprobs: list[dict[str, float]]
    text_offset: list[int]


class CompletionChoice(BaseModel):
    """One of the n continuations of one prompt; index: prompt number times n plus its own."""

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
