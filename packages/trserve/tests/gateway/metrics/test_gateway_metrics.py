"""trserve.gateway.metrics.gateway_metrics: the page has the names and numbers it promises."""

from __future__ import annotations

import dataclasses
import math

from prometheus_client.parser import text_string_to_metric_families

from rbalance import BalancerStats, Telemetry
from trserve.gateway.metrics.gateway_metrics import GatewayMetrics
from trserve.gateway.metrics.instance_collector import InstanceRow
from trserve.gateway.pool.telemetry_text import TelemetryReading, read_metrics

ROWS = [
    InstanceRow("a", "small", 3, 1, 120.5, True, False, 0.25, "closed"),
    InstanceRow("b", "large", 2, 0, 7.0, False, True, math.inf, "open"),
    InstanceRow('odd "name"\\', "large", 0, 0, 0.0, True, False, 1.0, "half-open"),
]

Samples = dict[tuple[str, tuple[str, ...]], float]


def samples(metrics: GatewayMetrics) -> Samples:
    """Values by name and label values in the order of the page."""
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(metrics.page().decode())
        for sample in family.samples
    }


def test_instances_are_shown_as_they_are_when_the_page_is_asked_for() -> None:
    rows = list(ROWS)
    metrics = GatewayMetrics(lambda: rows, BalancerStats())
    page = samples(metrics)
    expected = {
        "running": (3, 2, 0),
        "waiting": (1, 0, 0),
        "pending_tokens": (120.5, 7, 0),
        "up": (1, 0, 1),
        "draining": (0, 1, 0),
        "breaker_state": (0, 2, 1),
        "telemetry_age_seconds": (0.25, math.inf, 1.0),
    }
    for name, values in expected.items():
        for row, value in zip(ROWS, values, strict=True):
            assert page[f"trgateway_instance_{name}", (row.instance, row.model)] == value
    rows[:] = [dataclasses.replace(ROWS[0], running=9)]
    page = samples(metrics)
    assert page["trgateway_instance_running", ("a", "small")] == 9
    assert ("trgateway_instance_running", ("b", "large")) not in page


def test_an_instance_that_is_gone_is_counted_on_one_more_page() -> None:
    rows = list(ROWS[:2])
    metrics = GatewayMetrics(lambda: rows, BalancerStats())

    def count() -> None:
        metrics.decided("a", "small")
        metrics.decided("b", "large")
        metrics.breaker_opened("b")
        metrics.finished("b", 7, 0.1, None)

    count()
    del rows[1]
    gone = {
        ("trgateway_decisions_total", ("b", "large")): 1.0,
        ("trgateway_breaker_opened_total", ("b",)): 1.0,
        ("trgateway_tokens_total", ("b",)): 7.0,
    }
    assert gone.items() <= samples(metrics).items()
    page = samples(metrics)
    assert not gone.keys() & page.keys()
    assert page["trgateway_decisions_total", ("a", "small")] == 1
    count()  # of a request that ended late
    assert gone.items() <= samples(metrics).items()
    assert not gone.keys() & samples(metrics).keys()


def test_what_is_counted_is_on_the_page() -> None:
    metrics = GatewayMetrics(lambda: ROWS, BalancerStats())
    for _ in range(3):
        metrics.decided("a", "small")
    metrics.decided("b", "large")
    metrics.responded("/v1/chat/completions", 200)
    metrics.responded("/v1/chat/completions", 429)
    metrics.retried("refused")
    metrics.breaker_opened("b")
    metrics.batch(16, 0.03)
    metrics.decision_took(0.004)
    metrics.finished("a", 40, 1.5, 0.3)
    metrics.finished("a", 2, 0.1, None)
    metrics.finished("", 0, 0.2, None)
    page = samples(metrics)
    assert page["trgateway_decisions_total", ("a", "small")] == 3
    assert page["trgateway_decisions_total", ("b", "large")] == 1
    assert page["trgateway_responses_total", ("/v1/chat/completions", "429")] == 1
    assert page["trgateway_retries_total", ("refused",)] == 1
    assert page["trgateway_breaker_opened_total", ("b",)] == 1
    assert page["trgateway_tokens_total", ("a",)] == 42
    assert ("trgateway_tokens_total", ("",)) not in page
    for name, count, total in (
        ("batch_size", 1, 16),
        ("predictor_seconds", 1, 0.03),
        ("decision_seconds", 1, 0.004),
        ("time_to_first_token_seconds", 1, 0.3),
        ("request_duration_seconds", 3, 1.8),
    ):
        assert page[f"trgateway_{name}_count", ()] == count
        assert math.isclose(page[f"trgateway_{name}_sum", ()], total)


def test_every_number_of_the_balancer_is_on_the_page() -> None:
    stats = BalancerStats()
    metrics = GatewayMetrics(list, stats)
    numbers = [f.name for f in dataclasses.fields(stats) if f.name != "last_failure"]
    for value, name in enumerate(numbers, start=1):
        setattr(stats, name, value)
    stats.last_failure = "ValueError('of one request')"
    page = samples(metrics)
    for value, name in enumerate(numbers, start=1):
        suffix = "" if name == "stale_instances" else "_total"
        assert page[f"trgateway_balancer_{name}{suffix}", ()] == value
    assert b"of one request" not in metrics.page()


def test_another_gateway_reads_its_load_from_the_page() -> None:
    metrics = GatewayMetrics(lambda: ROWS, BalancerStats())
    metrics.decided("a", "small")
    assert read_metrics(metrics.page()) == TelemetryReading(Telemetry(5, 1), "trgateway")
