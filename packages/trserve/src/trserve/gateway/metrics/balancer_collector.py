"""The balancer's counters as Prometheus metrics, read when the page is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from rbalance import BalancerStats

_NO_COUNTERS = ("stale_instances",)


class BalancerCollector(Collector):
    """Every number of BalancerStats under its own name, after `trgateway_balancer_`.

    Its texts are no metrics: each would be a series of its own. They are logged.
    """

    def __init__(self, stats: BalancerStats) -> None:
        self._stats = stats

    def describe(self) -> Iterable[Metric]:
        """Nothing is promised: the fields are the balancer's business."""
        return []

    def collect(self) -> Iterator[Metric]:
        """One snapshot."""
        for field in fields(self._stats):
            value = getattr(self._stats, field.name)
            if isinstance(value, (int, float)):
                kind = GaugeMetricFamily if field.name in _NO_COUNTERS else CounterMetricFamily
                text = f"BalancerStats.{field.name}"
                yield kind(f"trgateway_balancer_{field.name}", text, value=value)
