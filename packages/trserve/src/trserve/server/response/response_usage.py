"""Token counts of a finished generation."""

from __future__ import annotations

from trserve.openai.schemas.usage import RouterUsage, Usage
from trserve.server.response.running_request import RunningRequest


def response_usage(running: RunningRequest) -> Usage:
    """Over all choices."""
    choices = running.choices
    counts = [sum(column) for column in zip(*(c.tokens_by_model for c in choices), strict=True)]
    prompt, completion = running.prepared.prompt_tokens, sum(counts)
    return Usage(
        prompt_tokens=prompt,
        completion_tokens=completion,
        total_tokens=prompt + completion,
        tokenrouter=RouterUsage(
            completion_tokens_by_model=dict(zip(running.served.models, counts, strict=True)),
            handoffs=sum(choice.final.handoffs for choice in choices if choice.final is not None),
        ),
    )
