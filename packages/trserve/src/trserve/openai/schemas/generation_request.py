"""The fields that chat and text completions share."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, model_validator
from pydantic_core import PydanticCustomError

from trserve.openai.schemas.strict import StrictModel, UnicodeStr, only

MAX_STOPS = 4
MAX_CHOICES = 128

StopString = Annotated[UnicodeStr, Field(min_length=1, max_length=1000)]


def disagreement(param: str, message: str) -> PydanticCustomError:
    """The error of a field that does not go with the others."""
    return PydanticCustomError("disagreement", "{text}", {"text": message, "param": param})


def string_or_list(value: object) -> str | None:
    """Which branch of a union of a string and a list a value belongs to."""
    if isinstance(value, str):
        return "string"
    return "list" if isinstance(value, list) else None


Stop = Annotated[
    Annotated[StopString, Tag("string")]
    | Annotated[list[StopString], Field(max_length=MAX_STOPS), Tag("list")],
    Discriminator(
        string_or_list,
        custom_error_type="stop_type",
        custom_error_message="must be a string or a list of up to 4 strings",
    ),
]


class StreamOptions(StrictModel):
    """Options of a stream.

    include_usage: one more chunk at the end, with the usage.
    """

    include_usage: bool | None = None
    include_obfuscation: Annotated[Any, *only(None, False)] = None


class Extension(StrictModel):
    """What this server offers beyond OpenAI's interface.

    model_per_token: each choice (and each chunk's choice) tells its tokens and, for each, the index
        of the model that made it.
    timeout_s: seconds until the request ends with a timeout error.
    threshold: the router's for this request; `/v1/models` tells its range and meaning.
    only: name of the one model that writes the answer.
    """

    model_per_token: bool = False
    timeout_s: float | None = Field(default=None, gt=0)
    threshold: float | None = None
    only: UnicodeStr | None = None

    @model_validator(mode="after")
    def _one_model_needs_no_threshold(self) -> Extension:
        if self.only is not None and self.threshold is not None:
            raise disagreement(
                "tokenrouter.only", "is not allowed together with 'tokenrouter.threshold'"
            )
        return self


class GenerationRequest(StrictModel):
    """Fields of both endpoints; null means the default everywhere."""

    model: UnicodeStr = Field(description="the served name, see /v1/models")
    stream: bool | None = Field(False, description="answer with server-sent events")
    stream_options: StreamOptions | None = None
    temperature: float | None = Field(1.0, ge=0, le=2, description="0 is greedy")
    top_p: float | None = Field(1.0, gt=0, le=1, description="nucleus sampling")
    top_k: int | None = Field(0, ge=0, description="not in OpenAI's interface; 0 keeps all tokens")
    seed: int | None = Field(
        None,
        ge=-(1 << 63),
        lt=1 << 64,
        description="the same seed gives the same answer; choice i of n uses seed + i",
    )
    max_tokens: int | None = Field(None, ge=1)
    stop: Stop | None = None
    n: int | None = Field(1, ge=1, le=MAX_CHOICES)
    user: UnicodeStr | None = Field(None, description="accepted, not used")
    frequency_penalty: Annotated[Any, *only(None, 0)] = None
    presence_penalty: Annotated[Any, *only(None, 0)] = None
    logit_bias: Annotated[Any, *only(None, {})] = None
    tokenrouter: Extension | None = None

    @model_validator(mode="after")
    def _stream_options_need_stream(self) -> GenerationRequest:
        if self.stream_options is not None and not self.stream:
            raise disagreement("stream_options", "is only allowed when 'stream' is true")
        return self

    @property
    def stops(self) -> list[str]:
        """Stop strings, as a list."""
        if self.stop is None:
            return []
        return [self.stop] if isinstance(self.stop, str) else self.stop

    @property
    def output_limit(self) -> int | None:
        """Most tokens of one choice; None for as many as fit."""
        return self.max_tokens


ServiceTier = Literal["auto", "default"]
