"""Counters of the gateway, with its collectors in a registry of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

from rbalance import BalancerStats
from trserve.gateway.metrics.balancer_collector import BalancerCollector
from trserve.gateway.metrics.instance_collector import InstanceCollector, InstanceRow

_BATCH_BOUNDS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
_DECISION_BOUNDS = (1e-5, 1e-4, 1e-3, 2e-3, 5e-3, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1)
_PREDICTOR_BOUNDS = (1e-5, 1e-4, 1e-3, 2e-3, 5e-3, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1)
_REGRET_BOUNDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1)
_TTFT_BOUNDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
_DURATION_BOUNDS = (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 300)


class _Children:
    """A counter's children by their labels, for `Counter.labels` takes longer than counting."""

    def __init__(self, counter: Counter) -> None:
        self._counter = counter
        self._known: dict[tuple[str, ...], Counter] = {}

    def add(self, amount: float, *labels: str) -> None:
        child = self._known.get(labels)
        if child is None:
            child = self._known[labels] = self._counter.labels(*labels)
        child.inc(amount)

    def keep(self, first: set[str]) -> None:
        """Forget those whose first label is another one."""
        for labels in [labels for labels in self._known if labels[0] not in first]:
            del self._known[labels]
            self._counter.remove(*labels)


class GatewayMetrics:
    """One per gateway. No label depends on what clients send."""

    def __init__(self, rows: Callable[[], Sequence[InstanceRow]], stats: BalancerStats) -> None:
        """rows: what the instances are like now; called when the page is asked for."""
        self._rows = rows
        self._registry = CollectorRegistry()
        self._registry.register(InstanceCollector(rows))
        self._registry.register(BalancerCollector(stats))
        self._decisions = self._counter(
            "decisions", "Requests sent to an instance, retries among them", "instance", "model"
        )
        self._responses = self._counter(
            "responses", "HTTP responses by path and status code", "path", "status"
        )
        self._retries = self._counter("retries", "Requests tried again, by reason", "reason")
        self._opened = self._counter(
            "breaker_opened", "Times that an instance was found to fail and left alone", "instance"
        )
        self._tokens = self._counter("tokens", "Tokens of responses", "instance")
        self._batch_size = self._histogram("batch_size", "Requests decided together", _BATCH_BOUNDS)
        self._decision = self._histogram(
            "decision_seconds", "From a request's arrival to its decision", _DECISION_BOUNDS
        )
        self._predictor = self._histogram(
            "predictor_seconds", "Predictions for a batch", _PREDICTOR_BOUNDS
        )
        self._regret = self._histogram(
            "regret_estimate",
            "By how much a decision's score was too high, given how long its request took",
            _REGRET_BOUNDS,
        )
        self._ttft = self._histogram(
            "time_to_first_token_seconds", "From the request to its first token", _TTFT_BOUNDS
        )
        self._duration = self._histogram(
            "request_duration_seconds", "From the request to its last byte", _DURATION_BOUNDS
        )

    def _counter(self, name: str, text: str, *labels: str) -> _Children:
        return _Children(Counter(f"trgateway_{name}", text, labels, registry=self._registry))

    def _histogram(self, name: str, text: str, bounds: Sequence[float]) -> Histogram:
        return Histogram(f"trgateway_{name}", text, buckets=bounds, registry=self._registry)

    def decided(self, instance: str, model: str) -> None:
        """Count a request sent to an instance."""
        self._decisions.add(1, instance, model)

    def responded(self, path: str, status: int) -> None:
        """Count one HTTP response; path is the route's, with its parameters unfilled."""
        self._responses.add(1, path, str(status))

    def retried(self, reason: str) -> None:
        """Count a retry; reason: a word of a small vocabulary."""
        self._retries.add(1, reason)

    def breaker_opened(self, instance: str) -> None:
        """Count an instance that is left alone from now on."""
        self._opened.add(1, instance)

    def batch(self, size: int, predictor_seconds: float) -> None:
        """Count a batch for which predictions were made."""
        self._batch_size.observe(size)
        self._predictor.observe(predictor_seconds)

    def decision_took(self, seconds: float) -> None:
        """Count a request's wait for its decision."""
        self._decision.observe(seconds)

    def finished(self, instance: str, tokens: int, seconds: float, ttft: float | None) -> None:
        """Count one request for text, however it ended. instance: empty if it came to none."""
        if instance:
            self._tokens.add(tokens, instance)
        self._duration.observe(seconds)
        if ttft is not None:
            self._ttft.observe(ttft)

    def regretted(self, score: float) -> None:
        """Count what a decision cost at most, as its score's share."""
        self._regret.observe(score)

    def page(self) -> bytes:
        """The metrics page in Prometheus' text format.

        Instances that are gone are on it once more: names may come and go for ever.
        """
        page = generate_latest(self._registry)
        there = {row.instance for row in self._rows()}
        for counter in (self._decisions, self._opened, self._tokens):
            counter.keep(there)
        return page
