"""Token counts of a response."""

from __future__ import annotations

from pydantic import BaseModel, Field


class RouterUsage(BaseModel):
    """Extension: who wrote the response."""

    completion_tokens_by_model: dict[str, int] = Field(description="model name to tokens it made")
    handoffs: int = Field(description="hand-offs among models")


class Usage(BaseModel):
    """Counts over all choices; a prompt counts once, whatever n."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    tokenrouter: RouterUsage
