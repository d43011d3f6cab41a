"""What the gateway knows of its instances as Prometheus gauges, read when the page is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from trserve.gateway.pool.circuit_breaker import BreakerState

_BREAKER: dict[BreakerState, int] = {"closed": 0, "half-open": 1, "open": 2}


@dataclass(frozen=True, slots=True)
class InstanceRow:
    """An instance now.

    instance: its name.
    model: the one that it serves.
    running: requests that run there, as the balancer sees them.
    waiting: requests that wait there, as the balancer sees them.
    pending_tokens: expected still to be written there, as the balancer sees them.
    up: requests may be sent there.
    draining: it gets nothing new.
    telemetry_age: seconds since its last reading; infinity before the first.
    breaker: its circuit breaker's state.
    """

    instance: str
    model: str
    running: int
    waiting: int
    pending_tokens: float
    up: bool
    draining: bool
    telemetry_age: float
    breaker: BreakerState


_GAUGES: tuple[tuple[str, str, Callable[[InstanceRow], float]], ...] = (
    ("running", "Requests that run there, all gateways'", lambda row: row.running),
    ("waiting", "Requests that wait there, all gateways'", lambda row: row.waiting),
    ("pending_tokens", "Tokens expected still to be written", lambda row: row.pending_tokens),
    ("up", "1 while requests may be sent there", lambda row: row.up),
    ("draining", "1 while it gets no new requests", lambda row: row.draining),
    (
        "breaker_state",
        "Of its circuit breaker: 0 closed, 1 half-open, 2 open",
        lambda row: _BREAKER[row.breaker],
    ),
    (
        "telemetry_age_seconds",
        "Since its load was last read; infinity: never",
        lambda row: row.telemetry_age,
    ),
)


class InstanceCollector(Collector):
    """Names start with `trgateway_instance_`; labels: instance, model."""

    def __init__(self, rows: Callable[[], Sequence[InstanceRow]]) -> None:
        self._rows = rows

    def describe(self) -> Iterable[Metric]:
        """Nothing is promised, so that registering does not ask for the rows."""
        return []

    def collect(self) -> Iterator[Metric]:
        """One snapshot."""
        rows = self._rows()
        for name, text, value in _GAUGES:
            gauge = GaugeMetricFamily(
                f"trgateway_instance_{name}", text, labels=["instance", "model"]
            )
            for row in rows:
                gauge.add_metric([row.instance, row.model], value(row))
            yield gauge
