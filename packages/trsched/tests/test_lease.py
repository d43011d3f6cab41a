"""Turns on shared cores: one holder at a time, first come first served."""

from __future__ import annotations

import os
import threading

import pytest

from packages.trsched.tests.waiting import until
from trsched.lease import Lease


def wait_for_waiters(lease: Lease, number: int) -> None:
    until(lambda: len(lease._waiters) == number)


def test_waiters_are_served_in_order_of_arrival() -> None:
    lease = Lease()
    served: list[int] = []

    def wait_for_turn(number: int) -> None:
        with lease:
            served.append(number)

    threads = [threading.Thread(target=wait_for_turn, args=(i,)) for i in range(8)]
    with lease:
        for number, thread in enumerate(threads):
            thread.start()
            wait_for_waiters(lease, number + 1)
        assert served == []
    for thread in threads:
        thread.join(20)
    assert served == list(range(8))


def test_who_has_just_had_a_turn_queues_up_again() -> None:
    """A plain lock would let the first thread in again and again before the other wakes up."""
    lease = Lease()
    served: list[str] = []

    def other() -> None:
        with lease:
            served.append("other")

    thread = threading.Thread(target=other)
    with lease:
        served.append("first")
        thread.start()
        wait_for_waiters(lease, 1)
    with lease:
        served.append("first")
    thread.join(20)
    assert served == ["first", "other", "first"]


def test_exclusion() -> None:
    lease = Lease()
    inside = 0
    most = 0

    def work() -> None:
        nonlocal inside, most
        for _ in range(100):
            with lease:
                inside += 1
                os.sched_yield()  # lets other threads in, if the lease does
                most = max(most, inside)
                inside -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    assert (inside, most) == (0, 1)


def test_an_error_inside_gives_the_lease_back() -> None:
    lease = Lease()
    with pytest.raises(ZeroDivisionError), lease:
        _ = 1 / 0
    with lease:
        pass
