"""Delayed batching never waits for ever: the thresholds in force against every way to queue."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from trcore import deadlock_free, effective_thresholds, may_start

THRESHOLDS = st.lists(st.integers(1, 40), min_size=1, max_size=6)
SMALL = st.lists(st.integers(1, 5), min_size=1, max_size=4)


@given(THRESHOLDS, st.integers(1, 200))
def test_effective_thresholds_never_deadlock(configured: list[int], active: int) -> None:
    assert deadlock_free(effective_thresholds(configured, active), active)


@given(THRESHOLDS, st.integers(0, 200))
def test_effective_thresholds_lie_between_one_and_what_is_configured(
    configured: list[int], active: int
) -> None:
    effective = effective_thresholds(configured, active)
    assert all(1 <= e <= c for e, c in zip(effective, configured, strict=True))


@given(THRESHOLDS, st.integers(1, 200))
def test_feasible_thresholds_are_taken_as_configured(configured: list[int], active: int) -> None:
    feasible = deadlock_free(configured, active)
    assert (effective_thresholds(configured, active) == configured) == feasible


@given(THRESHOLDS, st.integers(1, 200))
def test_no_more_is_given_up_than_must_be(configured: list[int], active: int) -> None:
    effective = effective_thresholds(configured, active)
    if effective != configured:
        assert sum(b - 1 for b in effective) == active - 1


@given(THRESHOLDS, st.integers(0, 200))
def test_more_requests_never_lower_a_threshold(configured: list[int], active: int) -> None:
    fewer, more = (effective_thresholds(configured, n) for n in (active, active + 1))
    assert all(f <= m for f, m in zip(fewer, more, strict=True))


def test_without_requests_and_for_nonsense_all_are_one() -> None:
    assert not deadlock_free([1, 1], 0)
    assert deadlock_free([1, 1], 1)
    assert effective_thresholds([3, 5], 0) == [1, 1]
    assert effective_thresholds([0, -2], 4) == [1, 1]


@given(SMALL, st.integers(1, 8))
def test_however_the_requests_are_queued_some_model_may_start(
    configured: list[int], active: int
) -> None:
    """By force: every way to distribute `active` requests over the queues."""
    effective = effective_thresholds(configured, active)
    for queues in product(range(active + 1), repeat=len(configured)):
        if sum(queues) == active:
            assert any(map(may_start, queues, effective)), queues


@given(SMALL, st.integers(1, 12))
def test_deadlock_free_is_no_stricter_than_it_must_be(thresholds: list[int], active: int) -> None:
    """Where it says no, the requests can indeed be queued so that no model starts."""
    if not deadlock_free(thresholds, active):
        queues, left = [], active
        for threshold in thresholds:
            queues.append(min(left, threshold - 1))
            left -= queues[-1]
        assert left == 0
        assert not any(map(may_start, queues, thresholds))


@given(st.integers(0, 50), st.integers(-3, 50))
def test_may_start(waiting: int, threshold: int) -> None:
    assert may_start(waiting, threshold) == (waiting >= 1 and waiting >= threshold)
