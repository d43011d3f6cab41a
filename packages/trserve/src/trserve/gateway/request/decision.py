"""Which instance a request goes to, why, and how that is told."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from rbalance import Balancer, Terms, Weights
    from trserve.gateway.metrics.gateway_metrics import GatewayMetrics
    from trserve.gateway.metrics.tracing import RequestSpan
    from trserve.gateway.pool.balancing import Balancing
    from trserve.gateway.pool.dispatch_account import DispatchAccount
    from trserve.gateway.pool.instance import Instance
    from trserve.gateway.pool.pool import Pool
    from trserve.gateway.request.parsed_body import ParsedBody
    from trserve.gateway.request.route_requests import RouteRequests
    from trserve.gateway.upstream.headers import Headers


@dataclass(frozen=True, slots=True)
class Decision:
    """One answer of the balancer's.

    instance: where the request goes.
    predicted_tokens: of its answer there.
    terms: the score's; None from a policy without scores.
    weights: those of the score; None from a policy without.
    decided_at: the event loop's time, in seconds.
    reason: in a few words.
    """

    instance: Instance
    predicted_tokens: float
    terms: Terms | None
    weights: Weights | None
    decided_at: float
    reason: str

    @property
    def headers(self) -> Headers:
        """x-routebalance-*, for everyone; the scores only where the policy has some."""
        headers = [
            (b"x-routebalance-instance", _ascii(self.instance.name)),
            (b"x-routebalance-model", _ascii(self.instance.spec.model)),
            (b"x-routebalance-reason", _ascii(self.reason)),
        ]
        if self.terms is not None:
            headers.append((b"x-routebalance-scores", msgspec.json.encode(_scores(self.terms))))
        return headers

    @property
    def note(self) -> bytes:
        """The same as one JSON object, for who asked for it."""
        told: dict[str, Any] = {
            "instance": self.instance.name,
            "model": self.instance.spec.model,
            "reason": self.reason,
            "predicted_tokens": self.predicted_tokens,
        }
        if self.terms is not None:
            told["scores"] = _scores(self.terms)
        return msgspec.json.encode(told)


class Decider:
    """Asks the balancer."""

    def __init__(
        self,
        balancer: Balancer,
        balancing: Balancing,
        requests: RouteRequests,
        pool: Pool,
        metrics: GatewayMetrics,
    ) -> None:
        self._balancer = balancer
        self._balancing = balancing
        self._requests = requests
        self._pool = pool
        self._metrics = metrics
        self._time = asyncio.get_running_loop().time

    async def decide(
        self,
        body: ParsedBody,
        account: DispatchAccount,
        span: RequestSpan,
        not_on: tuple[int, ...],
        failed_for: str | None,
    ) -> Decision | None:
        """None: the instance was removed since.

        account: by whose key the balancer dispatches it.
        not_on: numbers of instances that may not have it.
        failed_for: why the try before it failed; None: there was none.

        Raises NoInstanceError: none may take it. ApiError (404): its model is gone.
        """
        wanted = self._requests.of(body, account.key, not_on)
        asked_at = self._time()
        with span.decide() as deciding:
            routed = await self._balancer.route(wanted)
            decided_at = self._time()
            self._metrics.decision_took(decided_at - asked_at)
            instance = self._pool.find(routed.instance)
            if instance is None or not account.dispatched:  # its number may be another's by now
                return None
            decision = Decision(
                instance=instance,
                predicted_tokens=routed.predicted_tokens,
                terms=routed.terms,
                weights=wanted.weights or self._balancing.weights,
                decided_at=decided_at,
                reason=_reason(routed.terms, failed_for),
            )
            deciding.decided(instance.name, instance.spec.model, decision.reason)
            return decision


def _reason(terms: Terms | None, failed_for: str | None) -> str:
    after = "" if failed_for is None else f", after {failed_for} elsewhere"
    return f"policy{after}" if terms is None else f"score {terms.score:.3f}{after}"


def _scores(terms: Terms) -> dict[str, float]:
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
