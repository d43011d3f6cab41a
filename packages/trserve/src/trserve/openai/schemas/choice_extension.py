"""The `tokenrouter` object of a choice: only there when asked for, or when there is need."""

from __future__ import annotations

from pydantic import BaseModel, Field


def is_none(value: object) -> bool:
    """For `exclude_if`."""
    return value is None


class ChoiceExtension(BaseModel):
    """Extension of a choice.

    models: of each token the index of the model that made it, on request (`model_per_token`).
    token_ids: the tokens, likewise.
    degraded: a model died and the others wrote the rest, or the router failed and a model went on
        without it.
    """

    models: list[int] | None = Field(None, exclude_if=is_none)
    token_ids: list[int] | None = Field(None, exclude_if=is_none)
    degraded: bool | None = Field(None, exclude_if=is_none)
