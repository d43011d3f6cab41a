"""In words: why an instance may not have a request, and why none may."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trcore import WhyNot

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rbalance.policies.batch import RouteRequest


def why_not_text(
    why: WhyNot, tokens: int, window: int, lacking: int, usd: float, seconds: float
) -> str | None:
    """The first of the reasons; None for a candidate.

    tokens: of prompt and answer.
    window: the instance's, in tokens.
    lacking: capability bits.
    """
    texts = {
        WhyNot.DRAINING: "draining",
        WhyNot.UNHEALTHY: "unhealthy",
        WhyNot.NO_ROOM: f"prompt and answer of {tokens} tokens do not fit its {window}",
        WhyNot.LACKS_CAPABILITY: f"lacks capability bits {lacking:#x}",
        WhyNot.MODEL_NOT_ALLOWED: "model not allowed",
        WhyNot.EXCLUDED: "excluded",
        WhyNot.ABOVE_MAX_USD: f"above max_usd: {usd:.3g} USD",
        WhyNot.ABOVE_MAX_SECONDS: f"above max_seconds: {seconds:.3g} s",
    }
    return next((text for reason, text in texts.items() if reason in why), None)


def why_none_text(request: RouteRequest, why: Mapping[int, WhyNot]) -> str:
    """A sentence without its full stop.

    why: by instance.
    """
    closed = WhyNot.DRAINING | WhyNot.UNHEALTHY
    open_ = [each for each in why.values() if not each & closed]

    def count(reason: WhyNot) -> int:
        return sum(reason in each for each in open_)

    return (
        f"no instance may take this request: of {len(why)}, {len(open_)} are open; "
        f"of these {count(WhyNot.NO_ROOM)} have no room for "
        f"{request.prompt_tokens + request.max_tokens} tokens, "
        f"{count(WhyNot.LACKS_CAPABILITY)} lack a capability "
        f"and {count(WhyNot.EXCLUDED)} are excluded; "
        f"allowed models: {', '.join(request.models) if request.models else 'all'}; "
        f"ceilings: {request.max_usd:g} USD, {request.max_seconds:g} s"
    )
