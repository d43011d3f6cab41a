"""The group's status as Prometheus metrics, read when the page is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from trsched.shared.counters import GroupStatus, Histogram, SubserverStats
from trserve.server.metrics.batching_metrics import batching_metrics

_GAUGES: tuple[tuple[str, str, Callable[[SubserverStats], float]], ...] = (
    ("up", "1 while the model answers", lambda s: s.alive),
    ("batch_threshold", "Requests that must wait before a batch starts", lambda s: s.threshold),
    ("sequences_used", "Sequences with KV in the engine", lambda s: s.sequences_used),
    ("kv_used_tokens", "Tokens whose KV is held", lambda s: s.kv_tokens_used),
    ("kv_capacity_tokens", "Tokens whose KV can be held", lambda s: s.kv_tokens_capacity),
)
_COUNTERS: tuple[tuple[str, str, Callable[[SubserverStats], float]], ...] = (
    ("kv_reclaims", "Pending requests whose KV was taken back", lambda s: s.kv_reclaims),
    ("steps", "Forward steps", lambda s: s.steps),
    ("tokens_committed", "Tokens made final by this model", lambda s: s.tokens_committed),
    ("handoffs_sent", "Requests handed to a peer", lambda s: s.handoffs_sent),
    ("handoffs_received", "Requests taken over from a peer", lambda s: s.handoffs_received),
    ("stale_messages", "Messages for requests that had ended", lambda s: s.stale_messages),
    ("router_errors", "Calls of the router that failed", lambda s: s.router_errors),
)
_HISTOGRAMS: tuple[tuple[str, str, Callable[[SubserverStats], Histogram]], ...] = (
    ("batch_size_requests", "Requests in a step", lambda s: s.batch_size),
    ("step_seconds", "Duration of a step", lambda s: s.step_seconds),
    (
        "handoff_seconds",
        "From a peer's routing decision to the start of the batch here",
        lambda s: s.handoff_seconds,
    ),
    (
        "handoff_ready_seconds",
        "From a peer's routing decision until the request waits here",
        lambda s: s.handoff_ready_seconds,
    ),
)


class GroupCollector(Collector):
    """Names start with `trserve_group_` or, labelled by subserver, `trserve_subserver_`."""

    def __init__(self, status: Callable[[], GroupStatus]) -> None:
        self._status = status

    def describe(self) -> Iterable[Metric]:
        """Nothing is promised, so that registering does not ask for the status."""
        return []

    def collect(self) -> Iterator[Metric]:
        """One snapshot."""
        status = self._status()
        yield from _group(status)
        for name, text, value in _GAUGES:
            gauge = GaugeMetricFamily(f"trserve_subserver_{name}", text, labels=["subserver"])
            for subserver in status.subservers:
                gauge.add_metric([subserver.name], value(subserver))
            yield gauge
        for name, text, value in _COUNTERS:
            counter = CounterMetricFamily(f"trserve_subserver_{name}", text, labels=["subserver"])
            for subserver in status.subservers:
                counter.add_metric([subserver.name], value(subserver))
            yield counter
        for name, text, read in _HISTOGRAMS:
            yield _histogram(name, text, read, status.subservers)
        yield from batching_metrics(status)


def _group(status: GroupStatus) -> Iterator[Metric]:
    for name, text, value in (
        ("queued_requests", "Requests that wait for admission", status.queued),
        ("active_requests", "Requests admitted and not yet ended", status.active),
        ("active_requests_limit", "Requests admitted at the same time, at most", status.max_active),
        ("draining", "1 while new requests are refused", status.draining),
    ):
        yield GaugeMetricFamily(f"trserve_group_{name}", text, value=value)
    finished = CounterMetricFamily(
        "trserve_group_requests_finished", "Requests by how they ended", labels=["reason"]
    )
    for reason, count in sorted(status.finished.items()):
        finished.add_metric([reason], count)
    yield finished
    states = GaugeMetricFamily(
        "trserve_subserver_requests", "Requests by state", labels=["subserver", "state"]
    )
    for subserver in status.subservers:
        states.add_metric([subserver.name, "waiting"], subserver.waiting)
        states.add_metric([subserver.name, "running"], subserver.running)
        states.add_metric([subserver.name, "pending"], subserver.pending)
    yield states


def _histogram(
    name: str,
    text: str,
    read: Callable[[SubserverStats], Histogram],
    subservers: Iterable[SubserverStats],
) -> HistogramMetricFamily:
    family = HistogramMetricFamily(f"trserve_subserver_{name}", text, labels=["subserver"])
    for subserver in subservers:
        histogram = read(subserver)
        buckets: list[tuple[str, float]] = []
        seen = 0
        counts = tuple(histogram.counts)
        for bound, count in zip((*histogram.bounds, float("inf")), counts, strict=True):
            seen += count
            buckets.append(("+Inf" if bound == float("inf") else str(bound), seen))
        family.add_metric([subserver.name], buckets, sum_value=histogram.total)
    return family
