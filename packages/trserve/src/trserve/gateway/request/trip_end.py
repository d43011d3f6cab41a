"""What is counted and logged of a request that has got its answer, or won't."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import structlog

from trserve.gateway.metrics.regret import regret_estimate

if TYPE_CHECKING:
    from trserve.gateway.gateway import Gateway
    from trserve.gateway.request.trip import Trip

_log = structlog.get_logger("trserve.gateway")


def trip_ended(gateway: Gateway, trip: Trip, status: int) -> None:
    """status: what the client got; 499: it left, or read no more, before it had all."""
    now = asyncio.get_running_loop().time()
    seconds = now - trip.flight.started
    progress, terms = trip.progress, trip.terms
    whole = trip.flight.stopped is None and progress is not None and not progress.broken
    served = status == 200 and whole
    name = "" if trip.instance is None else trip.instance.name
    model = "" if trip.instance is None else trip.instance.spec.model
    trip.span.answered(status, model or None)
    tokens = 0
    if progress is not None:
        tokens = progress.tokens
        trip.span.used(progress.prompt_tokens, tokens)
    first = None if trip.first_at is None else trip.first_at - trip.flight.started
    gateway.metrics.finished(name, tokens, seconds, first)
    if served:
        gateway.balancing.ended(seconds, now)
        if terms is not None and trip.weights is not None:
            took = now - trip.decided_at
            gateway.metrics.regretted(regret_estimate(terms, trip.weights, took))
    if gateway.deployment.server.access_log:
        _log.info(
            "request finished",
            request_id=trip.flight.request_id,
            path=trip.path.partition("?")[0],  # a query may have a key
            asked=trip.ask.model,
            instance=name,
            model=model,
            status=status,
            tries=trip.tries,
            completion_tokens=tokens,
            ttft_s=None if first is None else round(first, 4),
            seconds=round(seconds, 4),
            predicted_s=None if terms is None else round(terms.seconds, 4),
        )
