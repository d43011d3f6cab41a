"""Turns on a shared device: one holder at a time, first come first served, nobody waited for."""

from __future__ import annotations

import os
import threading

from hypothesis import given
from hypothesis import strategies as st

from trsched.loops.batch_start import TurnTaking
from trsched.shared.arena import Arena
from trsched.shared.device_turns import DeviceTurns


class Queue:
    """The turns, and who was woken."""

    def __init__(self, models: int) -> None:
        self.woken: list[int] = []
        self.turns = DeviceTurns(models, threading.Lock(), self.woken.append, Arena())


@given(st.lists(st.tuples(st.sampled_from(["take", "leave"]), st.integers(0, 3))))
def test_it_is_a_queue(script: list[tuple[str, int]]) -> None:
    """Asking again keeps one's place; when a turn is over the next has it."""
    queue, model = Queue(4), list[int]()
    for action, index in script:
        queue.woken.clear()
        if action == "take":
            if index not in model:
                model.append(index)
            assert queue.turns.take(index) == (model[0] == index)
            assert queue.woken == []
        else:
            over = model[:1] == [index]
            model = [other for other in model if other != index]
            queue.turns.leave(index)
            assert queue.woken == (model[:1] if over else [])


def test_who_has_just_had_a_turn_queues_up_again() -> None:
    """A plain lock would let the first one in again and again before the other wakes up."""
    queue = Queue(2)
    assert queue.turns.take(0)
    assert not queue.turns.take(1)
    queue.turns.leave(0)
    assert not queue.turns.take(0)
    assert queue.turns.take(1)


def test_exclusion() -> None:
    wakes = [threading.Semaphore(0) for _ in range(4)]
    turns = DeviceTurns(4, threading.Lock(), lambda index: wakes[index].release(), Arena())
    inside = 0
    most = 0

    def work(index: int) -> None:
        nonlocal inside, most
        for _ in range(100):
            while not turns.take(index):
                assert wakes[index].acquire(timeout=30)
            inside += 1
            os.sched_yield()  # lets other threads in, if turns do
            most = max(most, inside)
            inside -= 1
            turns.leave(index)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    assert (inside, most) == (0, 1)


class Always:
    """Starts when anything waits."""

    def begin(self, waiting: int, *, at_once: bool = False) -> bool:
        del at_once
        return waiting > 0

    def end(self, waiting: int) -> None:
        pass


def test_who_has_nothing_to_do_any_more_is_not_waited_for() -> None:
    """Its requests ended while it queued."""
    queue = Queue(3)
    starts = [TurnTaking(index, queue.turns, Always()) for index in range(3)]
    assert starts[0].begin(1)
    assert not starts[1].begin(1)
    assert not starts[2].begin(1)
    assert not starts[1].begin(0)
    starts[0].end(1)
    assert queue.woken == [2]
    assert starts[2].begin(1)
