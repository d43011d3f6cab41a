"""`POST /v1/chat/completions`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from trsched.request import MAX_LOGPROBS
from trserve.openai.schemas.generation_request import (
    GenerationRequest,
    ServiceTier,
    disagreement,
    string_or_list,
)
from trserve.openai.schemas.strict import StrictModel, UnicodeStr, only


class TextPart(StrictModel):
    """The one kind of content part there is."""

    type: Literal["text"]
    text: UnicodeStr


Content = Annotated[
    Annotated[UnicodeStr, Tag("string")]
    | Annotated[list[TextPart], Field(min_length=1, fail_fast=True), Tag("list")],
    Discriminator(
        string_or_list,
        custom_error_type="content_type",
        custom_error_message="must be a string or a list of text parts",
    ),
]


class _ChatMessage(StrictModel):
    content: Content
    name: UnicodeStr | None = Field(None, description="given to the chat template")

    @property
    def text(self) -> str:
        """The content; parts are joined by a line break."""
        if isinstance(self.content, str):
            return self.content
        return "\n".join(part.text for part in self.content)


class SystemMessage(_ChatMessage):
    """Instructions."""

    role: Literal["system"]


class UserMessage(_ChatMessage):
    """What the user says."""

    role: Literal["user"]


class AssistantMessage(_ChatMessage):
    """An earlier answer; may be sent back just as it was received."""

    role: Literal["assistant"]
    refusal: Annotated[Any, *only(None)] = None
    annotations: Annotated[Any, *only(None, [])] = None
    audio: Annotated[Any, *only(None)] = None
    tool_calls: Annotated[Any, *only(None, [])] = None
    function_call: Annotated[Any, *only(None)] = None


ChatMessage = Annotated[SystemMessage | UserMessage | AssistantMessage, Field(discriminator="role")]


class ChatCompletionRequest(GenerationRequest):
    """A conversation to continue with the assistant's answer."""

    messages: list[ChatMessage] = Field(min_length=1, fail_fast=True)
    max_completion_tokens: int | None = Field(None, ge=1)
    logprobs: bool | None = False
    top_logprobs: int | None = Field(None, ge=0, le=MAX_LOGPROBS)

    metadata: dict[UnicodeStr, UnicodeStr] | None = Field(None, description="accepted, not used")
    store: Annotated[Any, *only(None, False)] = None
    service_tier: ServiceTier | None = Field(None, description="accepted, not used")
    prompt_cache_key: UnicodeStr | None = Field(None, description="accepted, not used")
    prompt_cache_retention: UnicodeStr | None = Field(None, description="accepted, not used")
    prompt_cache_options: dict[str, Any] | None = Field(None, description="accepted, not used")
    safety_identifier: UnicodeStr | None = Field(None, description="accepted, not used")
    parallel_tool_calls: bool | None = Field(None, description="accepted, not used: no tools")

    tools: Annotated[Any, *only(None, [])] = None
    tool_choice: Annotated[Any, *only(None, "none", "auto")] = None
    functions: Annotated[Any, *only(None, [])] = None
    function_call: Annotated[Any, *only(None, "none", "auto")] = None
    response_format: Annotated[Any, *only(None, {"type": "text"})] = None
    modalities: Annotated[Any, *only(None, ["text"])] = None
    audio: Annotated[Any, *only(None)] = None
    prediction: Annotated[Any, *only(None)] = None
    reasoning_effort: Annotated[Any, *only(None, "none")] = None
    verbosity: Annotated[Any, *only(None)] = None
    web_search_options: Annotated[Any, *only(None)] = None
    moderation: Annotated[Any, *only(None)] = None

    @model_validator(mode="after")
    def _fields_agree(self) -> ChatCompletionRequest:
        if self.top_logprobs is not None and not self.logprobs:
            raise disagreement("top_logprobs", "is only allowed when 'logprobs' is true")
        if None not in (self.max_tokens, self.max_completion_tokens) and (
            self.max_tokens != self.max_completion_tokens
        ):
            raise disagreement("max_tokens", "and 'max_completion_tokens' differ: send one of them")
        return self

    @property
    def output_limit(self) -> int | None:
        """Most tokens of one choice; None for as many as fit."""
        return self.max_completion_tokens or self.max_tokens

    @property
    def logprob_count(self) -> int | None:
        """Alternatives to report with each token; None for no logprobs at all."""
        return (self.top_logprobs or 0) if self.logprobs else None
