"""The answer of `POST /v1/chat/completions`, in one piece and in chunks."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from trserve.openai.schemas.choice_extension import ChoiceExtension, is_none
from trserve.openai.schemas.usage import Usage

FinishReason = Literal["stop", "length"]


class TopLogprob(BaseModel):
    """A token that could have been chosen."""

    token: str
    logprob: float
    bytes: list[int]


class TokenLogprob(TopLogprob):
    """A token of the answer."""

    top_logprobs: list[TopLogprob]


class ChatLogprobs(BaseModel):
    """Natural-log probabilities under the model that made each token."""

    content: list[TokenLogprob]
    refusal: None = None


class AnswerMessage(BaseModel):
    """The assistant's answer."""

    role: Literal["assistant"] = "assistant"
    content: str
    refusal: None = None


class ChatChoice(BaseModel):
    """One of the n answers."""

    index: int
    message: AnswerMessage
    logprobs: ChatLogprobs | None
    finish_reason: FinishReason | None
    tokenrouter: ChoiceExtension | None = Field(None, exclude_if=is_none)


class ChatCompletion(BaseModel):
    """The whole response."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    system_fingerprint: str
    choices: list[ChatChoice]
    usage: Usage


class Delta(BaseModel):
    """What a chunk adds to the message."""

    role: Literal["assistant"] | None = None
    content: str | None = None


class ChatChunkChoice(BaseModel):
    """What a chunk adds to one choice."""

    index: int
    delta: Delta
    logprobs: ChatLogprobs | None
    finish_reason: FinishReason | None
    tokenrouter: ChoiceExtension | None = None


class ChatCompletionChunk(BaseModel):
    """The data of one server-sent event."""

    id: str
    object: Literal["chat.completion.chunk"]
    created: int
    model: str
    system_fingerprint: str
    choices: list[ChatChunkChoice]
    usage: Usage | None = None
