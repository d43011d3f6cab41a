"""Thresholds by the number of active requests never deadlock, whoever changes them when."""

from __future__ import annotations

import itertools
import threading
from mmap import mmap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.trsched.groups import profile_config, request
from trcore import deadlock_free, effective_thresholds
from trsched.group import Group
from trsched.shared.arena import Arena
from trsched.shared.thresholds import Thresholds

anyone = st.lists(st.integers(1, 9), min_size=1, max_size=4)


@given(anyone, st.integers(0, 40))
def test_configured_thresholds_hold_where_they_may(configured: list[int], active: int) -> None:
    thresholds = Thresholds(configured, 40)
    assert list(thresholds.at(active)) == effective_thresholds(configured, active)


@given(st.dictionaries(st.integers(1, 20), st.tuples(*[st.integers(1, 9)] * 2)), st.integers(1, 40))
def test_tuned_thresholds_are_feasible_and_those_of_the_nearest_below(
    found: dict[int, tuple[int, int]], active: int
) -> None:
    thresholds = Thresholds([2, 3], 40)
    assert list(thresholds.at(active)) == effective_thresholds([2, 3], active)
    thresholds.replace(found)
    below = [n for n in found if n <= active]
    wanted = found[max(below)] if below else (2, 3)
    assert list(thresholds.at(active)) == effective_thresholds(wanted, active)
    assert deadlock_free(list(thresholds.at(active)), active)


def test_another_process_reads_what_the_tuner_has_written() -> None:
    block = mmap(-1, 1 << 12)
    ours = Thresholds([2, 3], 8, Arena(block))
    ours.replace({4: (1, 4)})
    theirs = Thresholds([2, 3], 8, Arena(block, is_new=False))
    assert list(theirs.at(8)) == [1, 4]
    ours.replace({})
    assert list(theirs.at(8)) == [2, 3]


@pytest.mark.parametrize("processes", [False, True], ids=["threads", "processes"])
@pytest.mark.parametrize("models", [2, 3])
def test_thresholds_that_change_all_the_time_hold_nobody_up(models: int, processes: bool) -> None:
    """A tuner gone wild: other thresholds every few hundred microseconds, while requests come."""
    group = Group.open(profile_config("me", models=models, max_active=8, processes=processes))
    over = threading.Event()
    choices = itertools.cycle(itertools.product([1, 2, 4, 7], repeat=models))

    def change() -> None:
        while not over.wait(2e-4):
            group.host.shared.thresholds.replace({n: next(choices) for n in range(1, 9)})
            for inbox in group.host.inboxes:
                inbox.wake()

    wild = threading.Thread(target=change)
    wild.start()
    try:
        streams = [group.submit(request(seed, 30)) for seed in range(60)]
        assert [len(stream.result()[0]) for stream in streams] == [30] * 60
    finally:
        over.set()
        wild.join()
        group.close()
