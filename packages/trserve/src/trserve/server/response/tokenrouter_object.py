"""The `tokenrouter` object of a choice that is sent whole."""

from __future__ import annotations

from collections.abc import Sequence

from trsched.request import TokenEvent
from trserve.openai.schemas.choice_extension import ChoiceExtension
from trserve.server.response.running_choice import RunningChoice
from trserve.server.response.running_request import RunningRequest


def tokenrouter_object(
    running: RunningRequest, choice: RunningChoice, tokens: Sequence[TokenEvent]
) -> ChoiceExtension | None:
    """None when the client did not ask and there is nothing it must know."""
    asked = running.prepared.model_per_token
    if not asked and not choice.degraded:
        return None
    return ChoiceExtension(
        models=[token.model for token in tokens] if asked else None,
        token_ids=[token.token_id for token in tokens] if asked else None,
        degraded=True if choice.degraded else None,
    )
