"""What the tuner knows is on the metrics page, under names that stay."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from trsched.shared.counters import GroupStatus, SubserverStats, TuningStatus
from trsched.shared.step_counters import StepCounters
from trserve.server.metrics.group_collector import GroupCollector

TUNING = TuningStatus(
    active=2,
    routing=((0.65, 0.35), (1.0, 0.0)),
    step_seconds=((0.006, 0.007), (0.0279, 0.028)),
    thresholds=(1, 2),
    predicted=110.3,
    measured=108.0,
    alone=(333.3, 71.7),
)


def page(tuning: TuningStatus | None) -> CollectorRegistry:
    stats = [SubserverStats(name, StepCounters(2, 4)) for name in ("small", "large")]
    registry = CollectorRegistry()
    registry.register(
        GroupCollector(lambda: GroupStatus("pair", 0, 2, 4, False, {}, stats, tuning))
    )
    return registry


def test_what_the_tuner_believes() -> None:
    registry = page(TUNING)

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"trserve_{name}", labels)

    assert value("group_routing_probability", subserver="small", to="large") == 0.35
    assert value("group_routing_probability", subserver="large", to="small") == 1.0
    assert value("subserver_estimated_step_seconds", subserver="small", size="2") == 0.007
    assert value("subserver_estimated_step_seconds", subserver="large", size="1") == 0.0279
    assert value("subserver_tuned_threshold", subserver="large") == 2
    assert value("group_tuned_requests") == 2
    assert value("group_predicted_tokens_per_second") == 110.3
    assert value("group_measured_tokens_per_second") == 108.0
    assert value("group_alone_predicted_tokens_per_second", subserver="large") == 71.7


def test_nothing_is_made_up_before_it_knows() -> None:
    names = {family.name for family in page(None).collect()}
    assert "trserve_subserver_moves" in names
    assert not {name for name in names if "predicted" in name or "probability" in name}
