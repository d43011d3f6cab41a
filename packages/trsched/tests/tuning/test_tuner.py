"""Tuned delayed batching against the best fixed thresholds, in virtual time."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence

import pytest

import trcore
from tests.support.trsched.virtual_group import Route, VirtualGroup
from trsched.shared.counters import TuningStatus
from trsched.shared.step_counters import StepCounters
from trsched.shared.thresholds import Thresholds
from trsched.tuning.throughput import Effort, Prediction, Situation
from trsched.tuning.tuner import Tuner

SMALL, LARGE = 6.0e-3, 27.9e-3
"""The article's step latencies in seconds."""

COMMITS = [[1, 0], [1, 0]]
LEAST_SHARE = 0.95
"""What tuning may cost: 5 % of the best fixed thresholds' throughput."""


def constant(*seconds: float) -> list[Callable[[int], float]]:
    return [lambda batch, s=s: s for s in seconds]  # type: ignore[misc]


def r2r(p: float) -> Route:
    def route(model: int, visit: int, draws: random.Random) -> tuple[int, int]:
        if model == 1:
            return 0, 1
        leaves = draws.random() < p
        return int(leaves), int(not leaves)

    return route


def best_fixed(p: float, active: int) -> tuple[int, ...]:
    found = trcore.best_thresholds([[1 - p, p], [1.0, 0.0]], COMMITS, [[SMALL], [LARGE]], active)
    return tuple(found.thresholds)


def status(group: VirtualGroup) -> TuningStatus:
    assert group.tuner is not None
    assert group.tuner.status is not None
    return group.tuner.status


@pytest.mark.parametrize("active", [2, 4, 8, 16])
def test_it_finds_the_optimum(active: int) -> None:
    group = VirtualGroup(r2r(0.35), constant(SMALL, LARGE), active)
    group.run(10)
    tuned = group.run(40)
    best = VirtualGroup(r2r(0.35), constant(SMALL, LARGE), active, fixed=best_fixed(0.35, active))
    best.run(10)
    assert tuned > 0.985 * best.run(40)  # two thresholds may be as good as one another within 1 %
    known = status(group)
    assert known.routing[0][1] == pytest.approx(0.35, abs=0.06)
    assert known.routing[1] == pytest.approx((1, 0), abs=0.02)
    assert [known.step_seconds[i][0] for i in (0, 1)] == pytest.approx([SMALL, LARGE])
    assert known.predicted == pytest.approx(tuned, rel=0.1)
    assert known.measured == pytest.approx(tuned, rel=0.2)
    assert known.alone == pytest.approx((active / SMALL, active / LARGE))


@pytest.mark.parametrize("active", [4, 8, 16])
def test_a_shift_of_p_costs_little_in_both_phases(active: int) -> None:
    group = VirtualGroup(r2r(0.35), constant(SMALL, LARGE), active)
    for p in (0.35, 0.02, 0.35):
        group.route = r2r(p)
        tuned = group.run(20)  # the time to notice included
        fixed = VirtualGroup(r2r(p), constant(SMALL, LARGE), active, fixed=best_fixed(p, active))
        assert tuned > LEAST_SHARE * fixed.run(20), p


def test_the_shift_would_cost_much_without_tuning() -> None:
    """What the test above is about: thresholds for 0.35, kept at 0.02."""
    kept = VirtualGroup(r2r(0.02), constant(SMALL, LARGE), 16, fixed=best_fixed(0.35, 16))
    best = VirtualGroup(r2r(0.02), constant(SMALL, LARGE), 16, fixed=best_fixed(0.02, 16))
    assert kept.run(20) < 0.8 * best.run(20)


def best_of_all(route: Route, latencies: Sequence[Callable[[int], float]], active: int) -> float:
    """The throughput of the best fixed thresholds, tried one by one."""
    feasible = itertools.product(range(1, active + 1), repeat=len(latencies))
    return max(
        VirtualGroup(route, latencies, active, fixed=fixed).run(20)
        for fixed in feasible
        if trcore.deadlock_free(fixed, active)
    )


def test_runs_that_are_not_geometric() -> None:
    """The small model always makes five tokens, the large one three: nothing is random."""

    def route(model: int, visit: int, draws: random.Random) -> tuple[int, int]:
        ends = visit == (5, 3)[model]
        return (1 - model if ends else model), 1

    latencies = constant(SMALL, LARGE)
    group = VirtualGroup(route, latencies, 6)
    group.run(5)
    assert group.run(20) > LEAST_SHARE * best_of_all(route, latencies, 6)


def test_three_models() -> None:
    def route(model: int, visit: int, draws: random.Random) -> tuple[int, int]:
        return draws.choices([0, 1, 2], [0.6, 0.3, 0.1])[0], 1

    latencies = constant(SMALL, 12e-3, LARGE)
    group = VirtualGroup(route, latencies, 5)
    group.run(5)
    assert group.run(20) > LEAST_SHARE * best_of_all(route, latencies, 5)


def test_a_load_that_changes() -> None:
    """N moves every second, and thresholds with it: each N has its own optimum."""
    loads = random.Random(1).choices(range(2, 17), k=60)
    group = VirtualGroup(r2r(0.35), constant(SMALL, LARGE), loads[0])
    group.run(5)
    tuned = best = 0.0
    fixed = VirtualGroup(r2r(0.35), constant(SMALL, LARGE), loads[0], fixed=(1, 1))
    known = {n: best_fixed(0.35, n) for n in set(loads)}
    for load in loads:
        group.set_active(load)
        tuned += group.run(1)
        fixed = VirtualGroup(r2r(0.35), constant(SMALL, LARGE), load, fixed=known[load])
        best += fixed.run(1)
    assert tuned > LEAST_SHARE * best


def test_models_that_take_turns_on_one_device() -> None:
    latencies = [lambda batch: 2e-3 + 0.8e-3 * batch, lambda batch: 4e-3 + 3e-3 * batch]
    group = VirtualGroup(r2r(0.5), latencies, 8, shared_device=True)
    group.run(5)
    tuned = group.run(20)
    feasible = [(a, b) for a in range(1, 9) for b in range(1, 9) if a + b - 2 < 8]
    best = max(
        VirtualGroup(r2r(0.5), latencies, 8, fixed=each, shared_device=True).run(20)
        for each in feasible
    )
    assert tuned > LEAST_SHARE * best
    eager = VirtualGroup(r2r(0.5), latencies, 8, fixed=(1, 1), shared_device=True)
    assert tuned > 0.99 * eager.run(20)


def test_it_does_not_waver() -> None:
    """In a steady state the thresholds stay, though the estimates move all the time."""
    group = VirtualGroup(r2r(0.35), constant(SMALL, LARGE), 8)
    group.run(20)
    seen = []
    for _ in range(200):
        group.run(0.5)
        seen.append(tuple(group.thresholds.at(8)))
    changes = sum(a != b for a, b in itertools.pairwise(seen))
    assert changes <= 10
    assert (1, 1) not in seen


def test_nothing_is_tuned_before_every_model_has_stepped() -> None:
    group = VirtualGroup(r2r(0.0), constant(SMALL, LARGE), 4)
    group.run(5)
    assert group.tuner is not None
    assert group.tuner.status is None
    assert list(group.thresholds.at(4)) == [1, 1]


def test_subservers_hear_of_other_thresholds_for_every_n(monkeypatch: pytest.MonkeyPatch) -> None:
    """N may have moved on while a solution was found: what is new may be for that other N."""
    thresholds, counters = Thresholds([1, 1], 8), [StepCounters(2, 8) for _ in range(2)]
    heard: list[tuple[int, ...]] = []
    tuner = Tuner(
        counters,
        thresholds,
        largest_batch=8,
        shared_device=False,
        changed=lambda: heard.append(tuple(thresholds.at(8))),
    )

    class Scripted:
        """Twice as fast with these thresholds as with any other."""

        def __init__(self, situation: Situation, effort: Effort, start: Sequence[int]) -> None:
            best = {4: (1, 1), 8: (1, 5)}[situation.active]
            self.best = Prediction(best, 2.0, "chain")

        def of(self, thresholds: tuple[int, ...]) -> Prediction:
            return Prediction(thresholds, 1.0, "chain")

    monkeypatch.setattr("trsched.tuning.tuner.Throughput", Scripted)
    for seconds, active in ((0.01, 8), (0.05, 4)):  # latencies move: all is solved again, for 4
        for each in counters:
            each.moved([(0, 0), (1, 0)])
            for _ in range(200):
                each.took(1, seconds)
        tuner.poll(active, now=seconds)
    assert heard == [(1, 5), (1, 1)]
