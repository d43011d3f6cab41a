"""What is counted, traced and logged of a request that has got its answer, or won't."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from trserve.gateway.metrics.regret import regret_estimate
from trserve.gateway.request.attempted import RoundOutcome

if TYPE_CHECKING:
    from trserve.gateway.metrics.gateway_metrics import GatewayMetrics
    from trserve.gateway.metrics.tracing import RequestSpan
    from trserve.gateway.pool.balancing import Balancing
    from trserve.gateway.request.attempted import Tries
    from trserve.gateway.request.received_request import ReceivedRequest
    from trserve.http.errors import ApiError

_log = structlog.get_logger("trserve.gateway")


@dataclass(frozen=True, slots=True)
class EndedRequest:
    """Everything is known.

    received: what the client sent.
    ended_at: the event loop's time, in seconds.
    status: what the client got; 499: it left, or read no more, before it had all.
    tries: that were sent to an instance.
    instance: whose answer it is; empty: nobody's.
    model: that instance's.
    usage: tokens of prompt and answer; None: the last round was sent to nobody.
    first_token_s: from its arrival to its first token; None: none came.
    predicted_s: how long the decision said it would take; None: it didn't.
    regret: what the decision cost at most; None where that cannot be told.
    served: it was answered whole, with a 200.
    """

    received: ReceivedRequest
    ended_at: float
    status: int
    tries: int
    instance: str
    model: str
    usage: tuple[int, int] | None
    first_token_s: float | None
    predicted_s: float | None
    regret: float | None
    served: bool

    @property
    def seconds(self) -> float:
        """From its arrival to its end."""
        return self.ended_at - self.received.received_at


def ended_request(
    received: ReceivedRequest, tries: Tries, status: int, ended_at: float
) -> EndedRequest:
    """From all that has come of it."""
    last = tries.last
    decision = None if last is None else last.decision
    terms = None if decision is None else decision.terms
    served = (
        status == 200
        and last is not None
        and last.outcome is RoundOutcome.ANSWERED
        and not last.broken
    )
    regret = None
    if served and decision is not None and decision.weights is not None and terms is not None:
        regret = regret_estimate(terms, decision.weights, ended_at - decision.decided_at)
    sent = last is not None and last.sent
    first_at = None if last is None else last.first_at
    return EndedRequest(
        received=received,
        ended_at=ended_at,
        status=status,
        tries=tries.count,
        instance="" if decision is None else decision.instance.name,
        model="" if decision is None else decision.instance.spec.model,
        usage=(last.prompt_tokens, last.tokens) if last is not None and sent else None,
        first_token_s=None if first_at is None else first_at - received.received_at,
        predicted_s=None if terms is None else terms.seconds,
        regret=regret,
        served=served,
    )


def record_end(
    ended: EndedRequest,
    span: RequestSpan,
    metrics: GatewayMetrics,
    balancing: Balancing,
    *,
    access_log: bool,
) -> None:
    """For everybody who wants to know. access_log: a line for it is wanted."""
    span.answered(ended.status, ended.model or None)
    if ended.usage is not None:
        span.used(*ended.usage)
    tokens = 0 if ended.usage is None else ended.usage[1]
    metrics.finished(ended.instance, tokens, ended.seconds, ended.first_token_s)
    if ended.served:
        balancing.ended(ended.seconds, ended.ended_at)
    if ended.regret is not None:
        metrics.regretted(ended.regret)
    if access_log:
        _log.info(
            "request finished",
            request_id=ended.received.id,
            path=ended.received.path.partition("?")[0],  # a query may have a key
            asked=ended.received.body.model,
            instance=ended.instance,
            model=ended.model,
            status=ended.status,
            tries=ended.tries,
            completion_tokens=tokens,
            ttft_s=_rounded(ended.first_token_s),
            seconds=round(ended.seconds, 4),
            predicted_s=_rounded(ended.predicted_s),
        )


def record_refusal(
    request_id: str, path: str, error: ApiError, span: RequestSpan, *, access_log: bool
) -> None:
    """Of a request that did not come in."""
    span.answered(error.status_code)
    if access_log:
        _log.info(
            "request refused",
            request_id=request_id,
            path=path.partition("?")[0],
            status=error.status_code,
            code=error.code,
        )


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 4)
