"""What the tuner believes after having seen steps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trsched.tuning.latency_estimate import LatencyEstimate
from trsched.tuning.routing_estimate import RoutingEstimate

LARGEST = 16
steps = st.lists(st.integers(0, 3000), min_size=3, max_size=3)


def counts(*numbers: float) -> np.ndarray:
    return np.array(numbers, dtype=np.float64)


@given(st.lists(st.tuples(st.integers(0, 2), steps), max_size=20))
def test_rows_of_p_are_probabilities(news: list[tuple[int, list[int]]]) -> None:
    estimate = RoutingEstimate(3)
    for model, moves in news:
        estimate.add(model, counts(*moves), counts(*(n // 2 for n in moves)))
    assert estimate.routing.sum(axis=1) == pytest.approx(1)
    assert (estimate.routing > 0).all()
    assert (estimate.commits >= 0).all()
    assert (estimate.commits <= 1.0 + 1e-9).all()


def test_it_comes_to_what_is_seen() -> None:
    estimate = RoutingEstimate(2)
    for _ in range(100):
        estimate.add(0, counts(65, 35), counts(65, 0))
        estimate.add(1, counts(40, 0), counts(40, 0))
    assert estimate.routing[0] == pytest.approx([0.65, 0.35], abs=0.01)
    assert estimate.routing[1] == pytest.approx([1, 0], abs=0.01)
    assert estimate.commits[0] == pytest.approx([1, 0], abs=0.01)
    assert estimate.commits[1, 0] == pytest.approx(1)


def test_it_follows_a_shift_within_two_windows() -> None:
    estimate = RoutingEstimate(2)
    for _ in range(100):
        estimate.add(0, counts(65, 35), counts(65, 0))
    for _ in range(10):
        estimate.add(0, counts(98, 2), counts(98, 0))
    assert estimate.routing[0, 1] < 0.08


@given(st.integers(1, 12))
def test_it_matters_little_how_often_one_looks(parts: int) -> None:
    at_once, often = RoutingEstimate(2), RoutingEstimate(2)
    at_once.add(0, counts(650, 350), counts(650, 0))
    for _ in range(parts):
        often.add(0, counts(650 / parts, 350 / parts), counts(650 / parts, 0))
    assert often.routing == pytest.approx(at_once.routing, abs=1e-9)


def turns(sizes: dict[int, int], seconds: dict[int, float]) -> tuple[np.ndarray, np.ndarray]:
    batches, took = np.zeros(LARGEST + 1), np.zeros(LARGEST + 1)
    for size, count in sizes.items():
        batches[size], took[size] = count, count * seconds[size]
    return batches, took


@given(
    st.floats(0, 0.1),
    st.floats(0.0001, 0.01),
    st.dictionaries(st.integers(1, LARGEST), st.integers(1, 500), min_size=2),
)
def test_a_line_is_found(base: float, slope: float, sizes: dict[int, int]) -> None:
    estimate = LatencyEstimate(LARGEST)
    estimate.add(*turns(sizes, {size: base + slope * size for size in sizes}))
    wanted = [base + slope * size for size in range(1, LARGEST + 1)]
    assert estimate.curve(LARGEST) == pytest.approx(wanted)


@given(
    st.dictionaries(
        st.integers(1, LARGEST), st.tuples(st.integers(1, 100), st.floats(1e-4, 1)), min_size=1
    )
)
def test_steps_take_time_and_never_less_for_more_requests(
    seen: dict[int, tuple[int, float]],
) -> None:
    estimate = LatencyEstimate(LARGEST)
    estimate.add(*turns({b: n for b, (n, _) in seen.items()}, {b: s for b, (_, s) in seen.items()}))
    assert estimate.known
    curve = estimate.curve(LARGEST)
    assert (curve > 0).all()
    assert (np.diff(curve) >= -1e-12).all()


def test_nothing_is_known_at_first() -> None:
    assert not LatencyEstimate(LARGEST).known


def test_a_turn_without_its_seconds_is_not_known() -> None:
    """The counters are read while the subserver writes them: a curve of 0 s would end the tuner."""
    estimate = LatencyEstimate(LARGEST)
    estimate.add(*turns({4: 1}, {4: 0.0}))
    first = estimate.known
    estimate.add(*turns({4: 1}, {4: 0.01}))
    assert (first, estimate.known) == (False, True)
    assert (estimate.curve(LARGEST) > 0).all()


def test_no_step_commits_more_than_a_token() -> None:
    """A move and its token are counted one after the other, and read in between."""
    estimate = RoutingEstimate(2)
    estimate.add(0, counts(10, 0), counts(10, 1))
    assert estimate.commits.max() == 1.0


def test_old_turns_fade() -> None:
    estimate = LatencyEstimate(LARGEST)
    estimate.add(*turns({4: 500}, {4: 0.010}))
    estimate.add(*turns({4: 200}, {4: 0.020}))
    assert estimate.curve(4)[-1] == pytest.approx(0.020, rel=0.02)
