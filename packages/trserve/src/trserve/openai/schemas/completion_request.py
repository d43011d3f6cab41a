"""`POST /v1/completions`."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Discriminator, Field, Tag, model_validator

from trsched.request import MAX_LOGPROBS
from trserve.openai.schemas.generation_request import GenerationRequest, disagreement
from trserve.openai.schemas.strict import UnicodeStr, only

MAX_PROMPTS = 128
DEFAULT_MAX_TOKENS = 16

TokenIds = Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1, fail_fast=True)]
Text = Annotated[UnicodeStr, Field(min_length=1)]


def _kind(value: object) -> str | None:
    if isinstance(value, str):
        return "text"
    if not isinstance(value, list):
        return None
    first = value[0] if value else ""
    return {str: "texts", int: "tokens", list: "token_lists"}.get(type(first))


Prompt = Annotated[
    Annotated[Text, Tag("text")]
    | Annotated[list[Text], Field(min_length=1, max_length=MAX_PROMPTS), Tag("texts")]
    | Annotated[TokenIds, Tag("tokens")]
    | Annotated[list[TokenIds], Field(max_length=MAX_PROMPTS, fail_fast=True), Tag("token_lists")],
    Discriminator(
        _kind,
        custom_error_type="prompt_type",
        custom_error_message=(
            "must be a string, a list of strings, a list of token ids or a list of such lists"
        ),
    ),
]


class CompletionRequest(GenerationRequest):
    """A text to continue, or several."""

    prompt: Prompt
    max_tokens: int | None = Field(DEFAULT_MAX_TOKENS, ge=1)
    logprobs: int | None = Field(None, ge=0, le=MAX_LOGPROBS)
    best_of: int | None = Field(None, ge=1, description="not supported beyond n")
    echo: Annotated[Any, *only(None, False)] = None
    suffix: Annotated[Any, *only(None)] = None

    @model_validator(mode="after")
    def _best_of_is_n(self) -> CompletionRequest:
        if self.best_of is not None and self.best_of != (self.n or 1):
            raise disagreement("best_of", "is not supported beyond n")
        return self

    @property
    def prompts(self) -> list[str | list[int]]:
        """One item for each prompt: text or token ids."""
        if isinstance(self.prompt, str):
            return [self.prompt]
        texts_or_lists = [prompt for prompt in self.prompt if not isinstance(prompt, int)]
        return texts_or_lists or [[token for token in self.prompt if isinstance(token, int)]]

    @property
    def output_limit(self) -> int | None:
        """Most tokens of one choice."""
        return self.max_tokens or DEFAULT_MAX_TOKENS

    @property
    def logprob_count(self) -> int | None:
        """Alternatives to report with each token; None for no logprobs at all."""
        return self.logprobs
