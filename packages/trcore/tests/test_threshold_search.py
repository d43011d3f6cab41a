"""The search over thresholds by simulation, against the exact one."""

from __future__ import annotations

import numpy as np
import pytest

from packages.trcore.tests.chains import QUANTUM, R2R_TOKENS, SECONDS, r2r
from trcore import best_thresholds, search_thresholds, simulate, solve

P3 = [[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [1.0, 0.0, 0.0]]
C3 = [[1, 0, 0], [1, 1, 0], [1, 1, 0]]
L3 = [[0.006], [0.015], [0.033]]


@pytest.mark.parametrize("requests", [2, 4, 8, 16])
def test_small_spaces_are_searched_whole(requests: int) -> None:
    exact = best_thresholds(r2r(), R2R_TOKENS, SECONDS, requests, quantum=QUANTUM)
    found = search_thresholds(r2r(), R2R_TOKENS, SECONDS, requests, tokens=50_000)
    assert found.candidates[0].tolist() == exact.candidates[0].tolist()
    real = solve(r2r(), R2R_TOKENS, SECONDS, requests, found.thresholds, quantum=QUANTUM)
    assert real.throughput > 0.995 * exact.throughput
    assert abs(found.throughput - real.throughput) < 3 * found.half_width


@pytest.mark.parametrize("exclusive", [False, True])
def test_uphill_finds_what_all_would(exclusive: bool) -> None:
    found = search_thresholds(P3, C3, L3, 8, max_evaluations=60, exclusive=exclusive)
    exact = best_thresholds(P3, C3, L3, 8, exclusive=exclusive)
    assert len(exact.candidates[1]) == 120
    assert len(found.candidates[1]) <= 60
    real = solve(P3, C3, L3, 8, found.thresholds, exclusive=exclusive)
    assert real.throughput > 0.98 * exact.throughput
    eager = solve(P3, C3, L3, 8, (1, 1, 1), exclusive=exclusive)
    assert real.throughput >= eager.throughput


def test_it_keeps_to_its_evaluations_and_sees_start_first() -> None:
    found = search_thresholds(P3, C3, L3, 256, start=(2, 30, 60), max_evaluations=40, tokens=2000)
    candidates, throughputs = found.candidates
    assert len(candidates) == len(throughputs) == 40
    assert candidates[0].tolist() == [2, 30, 60]
    assert len({tuple(b) for b in candidates.tolist()}) == 40
    assert ((candidates - 1).sum(axis=1) < 256).all()
    assert found.throughput == pytest.approx(throughputs.max(), rel=1e-9)
    again = simulate(P3, C3, L3, 256, found.thresholds, tokens=2000)
    assert (again.throughput, again.half_width) == (found.throughput, found.half_width)


def test_runs_that_are_not_geometric() -> None:
    """At least 3 steps between hand-offs, then P = 0.5: as if they were fewer."""
    stays = [[1.0, 0.0], [1.0, 0.0]]
    found = search_thresholds([stays, stays, r2r(0.5)], R2R_TOKENS, SECONDS, 8)
    assert sum(b - 1 for b in found.thresholds) < 8
    eager = simulate([stays, stays, r2r(0.5)], R2R_TOKENS, SECONDS, 8, (1, 1), tokens=20_000)
    assert found.throughput > eager.throughput


def test_ties_go_to_the_smallest() -> None:
    found = search_thresholds([[0, 1], [1, 0]], np.ones((2, 2)), SECONDS, 5, tokens=100)
    assert found.thresholds == (1, 1)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("start", (1, 1)),
        ("start", ()),
        ("start", (300, 1, 1)),
        ("start", (0, 1, 1)),
        ("max_evaluations", 0),
        ("tokens", 0),
        ("seed", -1),
    ],
)
def test_what_is_wrong_is_named(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=rf"^{name}: "):
        search_thresholds(P3, C3, L3, 256, **{name: value})  # type: ignore[arg-type]
