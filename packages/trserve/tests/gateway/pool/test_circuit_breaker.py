"""circuit_breaker: whatever happens in whatever order, it opens and recovers."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from trserve.gateway.pool.circuit_breaker import BreakerSettings, CircuitBreaker

SETTINGS = BreakerSettings(failures=3, cooldown_s=5, max_cooldown_s=20)


def opened(now: float = 0.0) -> CircuitBreaker:
    breaker = CircuitBreaker(SETTINGS)
    for _ in range(3):
        breaker.failed(now)
    return breaker


def test_it_opens_at_so_many_failures_in_a_row_and_not_at_as_many_with_a_success_between() -> None:
    breaker = CircuitBreaker(SETTINGS)
    for failed in (True, True, False, True, True):
        (breaker.failed if failed else breaker.succeeded)(0.0)
    assert breaker.allows(0.0)
    breaker.failed(1.0)
    assert (breaker.state(1.0), breaker.opened) == ("open", 1)
    assert not breaker.allows(5.9)
    assert breaker.state(6.0) == "half-open"


def test_half_open_lets_one_through_and_its_success_lets_all_through() -> None:
    breaker = opened()
    assert breaker.allows(5.0)
    assert not breaker.allows(5.0)
    breaker.succeeded(5.5)
    assert breaker.state(5.5) == "closed"
    assert all(breaker.allows(5.5) for _ in range(3))


def test_each_failed_probe_doubles_the_wait_up_to_the_most_and_a_success_resets_it() -> None:
    breaker, now, waits = opened(), 0.0, []
    for _ in range(4):
        closed_until = now
        while breaker.state(now) == "open":
            now += 0.5
        waits.append(now - closed_until)
        assert breaker.allows(now)
        breaker.failed(now)
    assert waits == [5, 10, 20, 20]
    assert breaker.opened == 5
    breaker.succeeded(now + 20)
    for _ in range(3):
        breaker.failed(now + 20)
    assert breaker.state(now + 24.9) == "open"
    assert breaker.state(now + 25) == "half-open"


def test_an_unanswered_probe_is_given_up_after_a_cooldown() -> None:
    breaker = opened()
    assert breaker.allows(6.0)
    assert not breaker.allows(10.9)
    assert breaker.allows(11.0)
    assert not breaker.allows(11.0)


def test_after_a_probe_that_told_nothing_the_next_follows_at_once() -> None:
    breaker = opened()
    assert breaker.allows(5.0)
    assert not breaker.allows(5.1)
    breaker.gave_up()
    assert breaker.state(5.1) == "half-open"
    assert breaker.allows(5.1)
    assert not breaker.allows(5.1)


def test_giving_up_is_no_news_of_one_that_is_open_or_closed() -> None:
    breaker = opened()
    breaker.gave_up()
    assert not breaker.allows(4.9)
    closed = CircuitBreaker(SETTINGS)
    for _ in range(2):
        closed.failed(0.0)
    closed.gave_up()
    closed.failed(0.0)
    assert closed.state(0.0) == "open"


@pytest.mark.parametrize("event", ["failed", "succeeded"])
def test_what_was_sent_before_it_opened_changes_nothing_while_it_is_open(event) -> None:
    breaker = opened()
    getattr(breaker, event)(4.0)
    assert breaker.state(4.9) == "open"
    assert breaker.state(5.0) == "half-open"
    assert breaker.opened == 1


class Breaking(RuleBasedStateMachine):
    """Answers, failures, requests and waiting in any order, against the rules as they are said."""

    def __init__(self) -> None:
        super().__init__()
        self.breaker = CircuitBreaker(SETTINGS)
        self.now = 0.0
        self.in_a_row = 0
        self.probe: float | None = None

    @rule(seconds=st.sampled_from([0.0, 0.1, 1.0, 4.9, 5.0, 20.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def ask(self) -> None:
        state, allowed = self.breaker.state(self.now), self.breaker.allows(self.now)
        assert self.breaker.state(self.now) == state, "asking is no news"
        if state == "half-open":
            if allowed and self.probe is not None:
                assert self.now - self.probe >= SETTINGS.cooldown_s - 1e-9, "two probes at once"
            if allowed:
                self.probe = self.now
            else:
                assert self.probe is not None, "nothing is on its way, and none was let through"
        else:
            assert allowed == (state == "closed")

    @rule()
    def give_up(self) -> None:
        before = self.breaker.state(self.now)
        self.breaker.gave_up()
        assert self.breaker.state(self.now) == before
        self.probe = None

    @rule()
    def fail(self) -> None:
        before, count = self.breaker.state(self.now), self.breaker.opened
        self.breaker.failed(self.now)
        after = self.breaker.state(self.now)
        if before == "closed":
            self.in_a_row += 1
            assert (after == "open") == (self.in_a_row == SETTINGS.failures)
        else:
            assert after == "open"
        assert self.breaker.opened - count == (before != "open" and after == "open")
        if after == "open":
            self.probe, self.in_a_row = None, 0

    @precondition(lambda self: self.breaker.state(self.now) != "open")
    @rule()
    def succeed(self) -> None:
        self.breaker.succeeded(self.now)
        assert self.breaker.state(self.now) == "closed"
        self.probe, self.in_a_row = None, 0

    @invariant()
    def it_never_shuts_for_good(self) -> None:
        assert self.breaker.state(self.now + SETTINGS.max_cooldown_s) != "open"

    def teardown(self) -> None:
        assert self.breaker.allows(self.now + 2 * SETTINGS.max_cooldown_s)


TestBreaking = Breaking.TestCase
TestBreaking.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
