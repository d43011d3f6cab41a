"""rbalance.simulator: what goes in comes out, time adds up, and known queues behave as known."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rbalance.cluster import Cluster, article_cluster, scaled
from rbalance.decide.batching import BatchLimits, FixedSizing
from rbalance.decide.slo_controller import SloSettings
from rbalance.errors import ArtefactError, ConfigError
from rbalance.policies.policy import Placements
from rbalance.policies.registry import Ingredients
from rbalance.policies.route_balance import RouteBalance
from rbalance.policies.weights import PRESETS
from rbalance.simulator.arrivals import ArrivalTrace, poisson, stepped
from rbalance.simulator.outcome import SimulationOutcome
from rbalance.simulator.point import SweepPoint, run_point
from rbalance.simulator.policy_registry import DEPLOYED, POLICIES, open_policy
from rbalance.simulator.prompt_pool import PromptPool
from rbalance.simulator.scheduler import DEPLOYMENTS, DecisionTime, Scheduler
from rbalance.simulator.simulation import Simulation, SloControl
from tests.support.rbalance.synthetic_pool import synthetic_pool

POOL = synthetic_pool()
CLUSTER = article_cluster()
OF = Ingredients(CLUSTER, POOL.prior_of(CLUSTER), POOL.labelled(CLUSTER))


def run(
    policy: str,
    rate: float = 12.0,
    n: int = 150,
    scheduler: Scheduler | None = None,
    gateways: int = 1,
) -> tuple[SimulationOutcome, Simulation]:
    simulation = Simulation(
        CLUSTER,
        POOL.workload(poisson(rate, n, seed=3), CLUSTER, seed=4),
        [open_policy(policy, OF) for _ in range(gateways)],
        scheduler or DEPLOYMENTS[DEPLOYED.get(policy.partition(":")[0], "instant")],
    )
    return simulation.run(), simulation


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_every_request_is_answered_once_and_nothing_stays_in_flight(policy: str) -> None:
    outcome, simulation = run(policy)
    assert (outcome.arrival <= outcome.dispatched).all()
    assert (outcome.dispatched < outcome.first).all()
    assert (outcome.first <= outcome.finished).all()
    assert set(outcome.quality.tolist()) <= {0.0, 1.0}
    assert (outcome.usd > 0).all()
    state = simulation.gateways[0].state
    assert len(state.in_flight) == 0
    state.refresh(1e9)
    for column in (state.view.running, state.view.waiting, state.view.pending_decode):
        assert not column.any()
    figures = outcome.summary()
    assert figures.answered == 150
    assert sum(figures.model_share) == pytest.approx(1)


def test_a_run_repeats_itself_exactly() -> None:
    first, second = (run("route-balance", n=100)[0] for _ in range(2))
    np.testing.assert_array_equal(first.finished, second.finished)
    np.testing.assert_array_equal(first.instance, second.instance)


def test_a_single_slot_behaves_as_the_pollaczek_khinchine_formula_says() -> None:
    """M/G/1: mean wait = λ E[S²] / (2 (1 − ρ))."""
    tier = replace(CLUSTER.tiers[0], instances=1, slots=1, growth=0.0, prefill_rate=1e9)
    alone = Cluster((tier,))
    pool, n = synthetic_pool(900, seed=2), 5_000
    length = pool.length[:, 0].round().clip(1)
    service = (length - 1) * tier.tpot_s
    rate = 0.5 / service.mean()
    simulation = Simulation(
        alone,
        pool.workload(poisson(rate, n, seed=5), alone),
        [open_policy("round-robin", Ingredients(alone, pool.prior_of(alone)))],
        DEPLOYMENTS["instant"],
    )
    outcome = simulation.run()
    waited = (outcome.first - outcome.arrival).mean()
    expected = rate * (service**2).mean() / (2 * (1 - rate * service.mean()))
    assert waited == pytest.approx(expected, rel=0.15)


def test_serial_scoring_queues_where_concurrent_does_not() -> None:
    serial, _ = run("best-route", 30, 400, DEPLOYMENTS["serial"])
    concurrent, _ = run("best-route", 30, 400, DEPLOYMENTS["concurrent"])
    behind = 400 * (0.077 - 1 / 30) / 2  # half of what the queue has grown to at the end
    assert serial.summary().residual_s == pytest.approx(behind, rel=0.1)
    assert concurrent.summary().residual_s == pytest.approx(0.077, rel=0.05)
    micro, _ = run("best-route", 30, 400, DEPLOYMENTS["micro-batched"])
    assert 0.077 < micro.summary().residual_s < serial.summary().residual_s


def test_batches_grow_with_the_load() -> None:
    idle, _ = run("route-balance", rate=2.0)
    busy, _ = run("route-balance", rate=400.0)
    assert idle.summary().mean_batch < 1.1
    assert idle.summary().residual_s == pytest.approx(0.0055, rel=0.1)
    assert busy.summary().mean_batch > 4


def test_what_is_not_predicted_in_time_is_decided_by_the_prior() -> None:
    slow = Scheduler(
        sizing=FixedSizing(BatchLimits(4, 0.0)), time=DecisionTime(((1, 9.0),)), timeout_s=0.5
    )
    outcome, _ = run("route-balance", 12, 60, slow)
    assert outcome.late == outcome.batches
    assert (outcome.dispatched - outcome.arrival).max() < 1.5
    assert not np.isnan(outcome.finished).any()
    external, _ = run("semantic-router", 40.0, 300)
    assert external.late > 0
    assert (external.dispatched - external.arrival).max() <= 2.0 + 1e-9


def test_several_gateways_share_the_instances_and_learn_of_each_other() -> None:
    outcome, simulation = run("shortest-queue", 60.0, 400, gateways=4)
    assert outcome.summary().answered == 400
    assert [len(gateway.state.in_flight) for gateway in simulation.gateways] == [0] * 4
    alone, _ = run("shortest-queue", 60.0, 400)
    assert outcome.summary().e2e_s < 1.3 * alone.summary().e2e_s


@pytest.mark.parametrize("gateways", [1, 4])
def test_a_burst_on_old_telemetry_does_not_herd_onto_one_instance(gateways: int) -> None:
    """800 requests within 20 ms, from one gateway and from four that do not see each other."""
    simulation = Simulation(
        CLUSTER,
        POOL.workload(np.linspace(0, 0.02, 800), CLUSTER),
        [open_policy("route-balance:weights=latency", OF) for _ in range(gateways)],
        DEPLOYMENTS["batched"],
    )
    outcome = simulation.run()
    counts = np.bincount(outcome.instance, minlength=13)
    assert counts.max() < 0.2 * 800
    for tier in (slice(0, 3), slice(3, 8), slice(8, 11)):
        assert counts[tier].max() < 3 * counts[tier].mean()


def test_an_ensemble_pays_for_all_its_members_and_a_cascade_takes_its_time() -> None:
    ensemble, _ = run("cocktail:target=1.0", n=80)
    single, _ = run("passthrough:model=Qwen2.5-72B", n=80)
    assert ensemble.summary().usd > single.summary().usd
    cascade, _ = run("tabi:trust=1.0", rate=2.0, n=80)
    small, _ = run("passthrough:model=Qwen2.5-3B", rate=2.0, n=80)
    best = CLUSTER.models[OF.training.strongest]
    large, _ = run(f"passthrough:model={best}", rate=2.0, n=80)
    both = small.summary().e2e_s + large.summary().e2e_s
    assert cascade.summary().e2e_s == pytest.approx(both, rel=0.1)
    np.testing.assert_array_equal(cascade.quality, large.quality)
    assert cascade.summary().usd == pytest.approx(small.summary().usd + large.summary().usd)


def test_rows_for_tpot_heads_hold_what_was_measured() -> None:
    simulation = Simulation(
        CLUSTER,
        POOL.workload(poisson(20, 200, seed=1), CLUSTER),
        [open_policy("round-robin", OF)],
        DEPLOYMENTS["instant"],
        record_tpot=True,
    )
    rows = simulation.run().tpot_rows
    assert len(rows) > 190
    assert {row.tier for row in rows} == {tier.name for tier in CLUSTER.tiers}
    by_tier = {tier.name: tier for tier in CLUSTER.tiers}
    for row in rows:
        assert row.tpot_s >= by_tier[row.tier].tpot_s * (1 - 1e-9)
        assert row.state["slots"] == 64
    loaded = [row.tpot_s for row in rows if (row.state["running"] or 0) >= 5]
    empty = [row.tpot_s for row in rows if row.state["running"] == 0]
    assert np.mean(loaded) > np.mean(empty)


def test_an_slo_controller_holds_a_target_that_fixed_weights_miss() -> None:
    """A load step: quality first until it costs too much time, and back again afterwards."""
    load = stepped([(2, 60), (24, 120), (2, 120)], seed=1)
    workload = POOL.workload(load, CLUSTER)
    found = {}
    for controlled in (False, True):
        policy = open_policy("route-balance:weights=quality", OF)
        assert isinstance(policy, RouteBalance)
        slo = SloSettings(target_s=5.5, base=PRESETS["quality"])
        control = SloControl(settings=slo, policy=policy) if controlled else None
        simulation = Simulation(
            CLUSTER, workload, [policy], DEPLOYMENTS["batched"], control=control
        )
        found[controlled] = simulation.run()
    late_in_step = (load > 90) & (load < 180)
    fixed, held = (found[controlled].e2e[late_in_step].mean() for controlled in (False, True))
    assert fixed > 5.5 * 1.1
    assert held < 5.5 * 1.1
    shares = [share for _, share in found[True].slo_shares]
    assert max(shares) > 0.05
    assert shares[-1] < max(shares) / 2
    assert max(np.abs(np.diff(shares))) <= 0.2 + 1e-9


def test_decisions_can_be_watched_before_they_take_effect() -> None:
    seen: list[int] = []

    def watch(gateway: object, rows: list[int], placements: Placements) -> None:
        assert len(rows) == len(placements.instance)
        seen.extend(rows)

    Simulation(
        CLUSTER,
        POOL.workload(poisson(30, 50, seed=1), CLUSTER),
        [open_policy("route-balance", OF)],
        DEPLOYMENTS["batched"],
        decided=watch,
    ).run()
    assert seen == list(range(50))


def test_a_trace_s_lengths_replace_the_pool_s() -> None:
    workload = POOL.workload(np.arange(3.0), CLUSTER)
    trace = ArrivalTrace(np.zeros(2), np.array([77.0, np.nan]), np.array([500.0, np.nan]))
    changed = workload.with_lengths_of(trace)
    assert changed.prompt.tolist() == [77, workload.prompt[1], workload.prompt[2]]
    assert changed.length[0].mean() == pytest.approx(500, rel=0.01)
    np.testing.assert_array_equal(changed.length[1:], workload.length[1:])
    ratio = changed.predictions.length[0] / workload.predictions.length[0]
    assert ratio == pytest.approx(500 / workload.length[0].mean(), rel=0.01)


def test_a_point_may_follow_a_trace(tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    lines = [{"timestamp": 100 * at, "input_length": 50, "output_length": 20} for at in range(30)]
    file.write_text("\n".join(map(json.dumps, lines)))
    point = SweepPoint(policy="round-robin", rate=5.0, requests=30, trace=str(file))
    outcome = run_point(point, POOL)
    assert np.diff(outcome.arrival) == pytest.approx(np.full(29, 30 / 5 / 29))
    assert outcome.summary().answered == 30
    file.write_text("what, when")
    with pytest.raises(ConfigError, match=r"trace: .*trace\.jsonl, line 1: neither Azure's"):
        run_point(point, POOL)


def test_a_cluster_grows_in_proportion() -> None:
    assert [tier.instances for tier in scaled(CLUSTER, 100).tiers] == [23, 39, 23, 15]
    assert [tier.instances for tier in scaled(CLUSTER, 4).tiers] == [1, 1, 1, 1]
    assert [tier.instances for tier in scaled(CLUSTER, 13).tiers] == [3, 5, 3, 2]
    with pytest.raises(ConfigError, match="3 are fewer than the 4 tiers"):
        scaled(CLUSTER, 3)


def test_a_simulation_needs_an_instance() -> None:
    workload = POOL.workload(np.zeros(1), CLUSTER)
    empty = Cluster(tuple(replace(tier, instances=0) for tier in CLUSTER.tiers))
    assert empty.models == CLUSTER.models
    with pytest.raises(ConfigError, match="tiers: there is no instance"):
        scaled(empty, 13)
    with pytest.raises(ConfigError, match="tiers: there is no instance to send a request to"):
        Simulation(empty, workload, [open_policy("infaas", OF)], DEPLOYMENTS["instant"])
    with pytest.raises(ConfigError, match="tiers: there must be one"):
        Cluster(())


def test_a_pool_is_kept_in_a_file_and_another_file_is_refused(tmp_path: Path) -> None:
    POOL.save(tmp_path / "pool.npz")
    kept = PromptPool.load(tmp_path / "pool.npz")
    assert kept.models == POOL.models
    assert kept.train_category == POOL.train_category
    np.testing.assert_array_equal(kept.predictions.quality, POOL.predictions.quality)
    np.testing.assert_array_equal(kept.train_vectors, POOL.train_vectors)
    np.savez(tmp_path / "other.npz", version=1)
    (tmp_path / "text.npz").write_text("no archive")
    for name in ("other.npz", "text.npz"):
        with pytest.raises(ArtefactError, match=f"{name}: no prompt pool"):
            PromptPool.load(tmp_path / name)


def test_a_workload_without_requests_or_labels_is_refused() -> None:
    with pytest.raises(ConfigError, match="no request arrives"):
        POOL.workload(np.empty(0), CLUSTER)
    with pytest.raises(ConfigError, match="no labels of 'a'"):
        POOL.workload(np.zeros(1), article_cluster(["a", "b", "c", "d"]))
