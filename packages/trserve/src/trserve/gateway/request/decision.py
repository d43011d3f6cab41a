"""How a decision is told: response headers for everyone, an object for who asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from rbalance import Routed
    from trserve.gateway.pool.instance import Instance
    from trserve.gateway.request.reply import Headers
    from trserve.gateway.request.trip import Trip


def decision_headers(instance: Instance, routed: Routed, trip: Trip) -> Headers:
    """x-routebalance-*; the scores only where the policy has some."""
    headers = [
        (b"x-routebalance-instance", _ascii(instance.name)),
        (b"x-routebalance-model", _ascii(instance.spec.model)),
        (b"x-routebalance-reason", _ascii(reason_of(routed, trip))),
    ]
    if routed.terms is not None:
        headers.append((b"x-routebalance-scores", msgspec.json.encode(_scores(routed))))
    return headers


def decision_note(instance: Instance, routed: Routed, trip: Trip) -> bytes:
    """The same as one JSON object."""
    told: dict[str, Any] = {
        "instance": instance.name,
        "model": instance.spec.model,
        "reason": reason_of(routed, trip),
        "predicted_tokens": routed.predicted_tokens,
    }
    if routed.terms is not None:
        told["scores"] = _scores(routed)
    return msgspec.json.encode(told)


def reason_of(routed: Routed, trip: Trip) -> str:
    """In a few words."""
    after = "" if trip.failed is None else f", after {trip.failed.reason} elsewhere"
    if routed.terms is None:
        return "policy" + after
    return f"score {routed.terms.score:.3f}{after}"


def _scores(routed: Routed) -> dict[str, float]:
    assert routed.terms is not None
    terms = routed.terms
    return {
        "score": round(terms.score, 6),
        "quality": round(terms.quality, 6),
        "cost": round(terms.cost, 6),
        "latency": round(terms.latency, 6),
        "usd": terms.usd,
        "seconds": round(terms.seconds, 6),
    }


def _ascii(text: str) -> bytes:
    return text.encode("ascii", "backslashreplace").replace(b"\r", b" ").replace(b"\n", b" ")
