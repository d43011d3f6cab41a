"""Thresholds by the number of active requests never deadlock, whoever changes them when."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from packages.trsched.tests.groups import profile_config, request
from trcore import PeerRing, deadlock_free, effective_thresholds
from trsched.group import Group
from trsched.thresholds import FixedThresholds, TunedThresholds

anyone = st.lists(st.integers(1, 9), min_size=1, max_size=4)


@given(anyone, st.integers(0, 40))
def test_fixed_thresholds_are_the_configured_ones_where_they_may(
    configured: list[int], active: int
) -> None:
    thresholds = FixedThresholds(configured)
    for _ in range(2):  # the second time from memory
        assert thresholds.at(active) == effective_thresholds(configured, active)


@given(st.dictionaries(st.integers(1, 20), st.tuples(*[st.integers(1, 9)] * 2)), st.integers(1, 40))
def test_tuned_thresholds_are_feasible_and_those_of_the_nearest_below(
    found: dict[int, tuple[int, int]], active: int
) -> None:
    thresholds = TunedThresholds([2, 3])
    assert list(thresholds.at(active)) == effective_thresholds([2, 3], active)
    thresholds.replace(found)
    below = [n for n in found if n <= active]
    wanted = found[max(below)] if below else (2, 3)
    assert list(thresholds.at(active)) == effective_thresholds(wanted, active)
    assert deadlock_free(thresholds.at(active), active)


def test_reading_while_the_tuner_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    """It starts from nothing whenever estimates have moved: an N just seen is gone again."""
    thresholds = TunedThresholds([1, 1])
    thresholds.replace({4: (1, 3)})

    def chosen(*arguments: Any, **options: Any) -> Any:
        nearest = max(*arguments, **options)
        thresholds.replace({2: (1, 2)})  # the other thread, at the worst moment
        return nearest

    monkeypatch.setattr("trsched.thresholds.max", chosen, raising=False)
    assert list(thresholds.at(4)) == [1, 3]
    assert list(thresholds.at(4)) == [1, 2]


@pytest.mark.parametrize("models", [2, 3])
def test_thresholds_that_change_all_the_time_hold_nobody_up(
    models: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tuner gone wild: other thresholds every few hundred microseconds, while requests come."""
    thresholds = TunedThresholds([1] * models)
    rings: list[PeerRing] = []

    def wild_batching(plan: object, stats: object, inboxes: list[PeerRing], *_: object) -> Any:
        rings.extend(inboxes)
        return thresholds, None

    monkeypatch.setattr("trsched.group.delayed_batching", wild_batching)
    group = Group.open(profile_config("me", models=models, max_active=8))
    over = threading.Event()
    choices = itertools.cycle(itertools.product([1, 2, 4, 7], repeat=models))

    def change() -> None:
        while not over.wait(2e-4):
            thresholds.replace({n: next(choices) for n in range(1, 9)})
            for ring in rings:
                ring.wake()

    wild = threading.Thread(target=change)
    wild.start()
    try:
        streams = [group.submit(request(seed, 30)) for seed in range(60)]
        assert [len(stream.result()[0]) for stream in streams] == [30] * 60
    finally:
        over.set()
        wild.join()
        group.close()
