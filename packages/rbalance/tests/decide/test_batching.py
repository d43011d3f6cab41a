"""rbalance.decide.batching: sizes and deadlines by load, at once when idle, order kept."""

from __future__ import annotations

import math

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from rbalance.decide.batching import (
    AdaptiveSizing,
    BatchLimits,
    BatchQueue,
    FixedSizing,
    NaturalSizing,
    batch_due,
)
from rbalance.errors import ConfigError


@pytest.mark.parametrize(
    ("congested", "size", "delay_ms"),
    [(None, 8, 100), (0.0, 4, 50), (0.29, 4, 50), (0.3, 16, 100), (0.7, 32, 200), (1.0, 32, 200)],
)
def test_sizes_and_deadlines_follow_the_share_of_congested_instances(
    congested: float | None, size: int, delay_ms: int
) -> None:
    assert AdaptiveSizing().limits(congested) == BatchLimits(size, delay_ms / 1e3)


def test_natural_batches_wait_for_nobody() -> None:
    queue = BatchQueue[int](NaturalSizing(most=3))
    for item in range(5):
        queue.add(item, now=1.0)
    assert queue.take(now=1.0) == [0, 1, 2]
    queue.add(5, now=2.0)
    assert queue.take(now=2.0) == []  # one decision at a time
    queue.decided(congested=1.0)
    assert queue.take(now=2.0) == [3, 4, 5]
    queue.decided(congested=0.0)
    assert queue.due() == math.inf


def test_limits_that_cannot_be_are_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"batch\.size"):
        BatchLimits(0, 0.1)
    with pytest.raises(ConfigError, match=r"batch\.delay_s"):
        BatchLimits(1, math.nan)


def test_a_batch_is_due_when_full_or_when_its_first_has_waited() -> None:
    limits = BatchLimits(4, 0.5)
    assert batch_due(0, 3.0, False, limits) == math.inf
    assert batch_due(1, 3.0, False, limits) == 3.5
    assert batch_due(4, 3.0, False, limits) == -math.inf
    assert batch_due(1, 3.0, True, limits) == -math.inf


def test_an_idle_system_does_not_wait_for_company_but_a_deciding_one_does() -> None:
    queue = BatchQueue[str](FixedSizing(BatchLimits(4, 0.5)))
    queue.add("first", 0.0)
    assert queue.take(0.0) == ["first"]
    queue.add("second", 0.01)
    assert queue.due() == math.inf, "one decision at a time"
    queue.decided(0.0)
    assert queue.due() == pytest.approx(0.51)
    assert queue.take(0.4) == []
    queue.add("third", 0.4)
    assert queue.take(0.51) == ["second", "third"]


def test_what_has_piled_up_goes_in_one_batch_as_large_as_there_are() -> None:
    queue = BatchQueue[int](AdaptiveSizing())
    for item in range(40):
        queue.add(item, 0.0)
    queue.take(0.0)
    queue.decided(0.0)
    assert len(queue.take(0.0)) == 8, "4 are enough to start, 8 are there"


def test_several_deciders_take_requests_as_they_come() -> None:
    queue = BatchQueue[int](FixedSizing(BatchLimits(1, 0.0)), deciders=2)
    for item in range(3):
        queue.add(item, 0.0)
    assert [queue.take(0.0), queue.take(0.0), queue.take(0.0)] == [[0], [1], []]
    queue.decided(None)
    assert queue.take(0.0) == [2]


class Queue(RuleBasedStateMachine):
    """Any order of arrivals, looks and decisions."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = BatchQueue[int](AdaptiveSizing())
        self.now, self.added, self.taken, self.deciding = 0.0, 0, 0, False
        self.arrived: dict[int, float] = {}

    @rule(gap=st.floats(0, 0.2))
    def arrive(self, gap: float) -> None:
        self.now += gap
        self.arrived[self.added] = self.now
        self.queue.add(self.added, self.now)
        self.added += 1

    @rule()
    def take(self) -> None:
        batch = self.queue.take(self.now)
        assert batch == list(range(self.taken, self.taken + len(batch))), "in order, none lost"
        assert len(batch) <= 32
        assert not (batch and self.deciding)
        self.deciding = self.deciding or bool(batch)
        self.taken += len(batch)

    @precondition(lambda self: self.deciding)
    @rule(congested=st.floats(0, 1))
    def decide(self, congested: float) -> None:
        self.deciding = False
        self.queue.decided(congested)

    @invariant()
    def nobody_waits_longer_than_the_longest_deadline(self) -> None:
        if self.taken < self.added and not self.deciding:
            assert self.queue.due() <= self.arrived[self.taken] + 0.2
        assert self.queue.idle == (self.taken == self.added and not self.deciding)


TestQueue = Queue.TestCase
