"""Whether a request is tried again, and where: without sockets."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trserve.gateway.request.attempted import FAILURES, Attempted, RoundOutcome, Tries
from trserve.gateway.request.retry_decision import Retry, retry_decision

MOST = 3


class _Numbered:
    """As much of an instance as is looked at here."""

    def __init__(self, number: int) -> None:
        self.number = number


class _Decided:
    def __init__(self, number: int) -> None:
        self.instance = _Numbered(number)


def round_at(outcome: RoundOutcome, number: int = 0) -> Attempted:
    """A round at that instance; what fails or was answered had been sent there."""
    decision: Any = None if outcome is RoundOutcome.NOBODY else _Decided(number)
    return Attempted(outcome, decision, sent=outcome in (*FAILURES, RoundOutcome.ANSWERED))


def after(
    tries: Tries, outcome: RoundOutcome, number: int = 0, *, room: bool = True, money: bool = True
) -> tuple[Tries, Retry]:
    """With one round more, and what follows from it."""
    tries = tries.after(round_at(outcome, number))
    retry = retry_decision(outcome, tries, MOST, room_elsewhere=room, affordable=money)
    return tries, retry


@pytest.mark.parametrize(
    ("outcome", "retry"),
    [
        (RoundOutcome.ANSWERED, Retry.GIVE_UP),
        (RoundOutcome.STOPPED, Retry.GIVE_UP),
        (RoundOutcome.NOT_TRIED, Retry.ANEW),
        (RoundOutcome.WITHDRAWN, Retry.ANEW),
        (RoundOutcome.NOBODY, Retry.GIVE_UP),
        (RoundOutcome.FAILED, Retry.ELSEWHERE),
        (RoundOutcome.BROKEN, Retry.ELSEWHERE),
        (RoundOutcome.TOO_LONG, Retry.ELSEWHERE),
    ],
)
def test_after_the_first_round(outcome: RoundOutcome, retry: Retry) -> None:
    assert after(Tries(), outcome)[1] is retry


@pytest.mark.parametrize("outcome", [RoundOutcome.NOT_TRIED, RoundOutcome.WITHDRAWN])
def test_what_is_no_retry_is_neither_counted_nor_paid_for(outcome: RoundOutcome) -> None:
    tries = Tries(count=MOST)
    for _ in range(5):
        tries, retry = after(tries, outcome, money=False, room=False)
        assert (tries.count, retry) == (MOST, Retry.ANEW)


@pytest.mark.parametrize("outcome", FAILURES)
def test_a_retry_must_be_affordable_and_among_so_many(outcome: RoundOutcome) -> None:
    assert after(Tries(), outcome, money=False)[1] is Retry.GIVE_UP
    assert after(Tries(count=MOST - 2), outcome)[1] is Retry.ELSEWHERE
    assert after(Tries(count=MOST - 1), outcome)[1] is Retry.GIVE_UP


def test_a_prompt_that_is_too_long_needs_more_room_elsewhere() -> None:
    assert after(Tries(), RoundOutcome.TOO_LONG, room=False)[1] is Retry.GIVE_UP
    assert after(Tries(), RoundOutcome.BROKEN, room=False)[1] is Retry.ELSEWHERE


def test_where_it_broke_off_it_is_tried_again_if_nobody_else_may_have_it() -> None:
    """Once; and once more if that try breaks off, too."""
    tries, retry = after(Tries(), RoundOutcome.BROKEN, 7)
    assert retry is Retry.ELSEWHERE
    tries = tries.elsewhere([7])
    tries, retry = after(tries, RoundOutcome.NOBODY)
    assert retry is Retry.HERE
    tries = tries.here()
    assert tries.not_on == ()
    assert after(tries, RoundOutcome.NOBODY)[1] is Retry.GIVE_UP
    probed, retry = after(tries, RoundOutcome.NOT_TRIED, 7)
    assert (probed.not_on, retry) == ((7,), Retry.ANEW)
    assert after(probed, RoundOutcome.NOBODY)[1] is Retry.GIVE_UP
    tries, retry = after(tries, RoundOutcome.BROKEN, 7)
    assert retry is Retry.ELSEWHERE
    assert after(tries.elsewhere([7]), RoundOutcome.NOBODY)[1] is Retry.HERE


@pytest.mark.parametrize("outcome", [RoundOutcome.FAILED, RoundOutcome.TOO_LONG])
def test_elsewhere_failures_are_not_tried_again_where_they_were(outcome: RoundOutcome) -> None:
    tries, _ = after(Tries(), outcome, 7)
    assert after(tries.elsewhere([7]), RoundOutcome.NOBODY)[1] is Retry.GIVE_UP


def test_the_last_failure_is_kept_for_who_gets_nothing_better() -> None:
    tries, _ = after(Tries(), RoundOutcome.FAILED, 1)
    failed = tries.failed
    for outcome in (RoundOutcome.NOT_TRIED, RoundOutcome.WITHDRAWN, RoundOutcome.NOBODY):
        tries, _ = after(tries, outcome, 2)
        assert tries.failed is failed
    tries, _ = after(tries, RoundOutcome.BROKEN, 3)
    assert tries.failed is tries.last


NUMBERS = st.integers(0, 3)


def carried_out(
    rounds: Iterator[tuple[RoundOutcome, int]], budget: int
) -> Iterator[tuple[Tries, Retry]]:
    """A request's rounds, of which nobody may take it where all instances are excluded."""
    tries = Tries()
    for wanted, number in rounds:
        outcome = RoundOutcome.NOBODY if number in tries.not_on else wanted
        tries, retry = after(tries, outcome, number, money=budget > 0)
        yield tries, retry
        if retry is Retry.GIVE_UP:
            return
        if retry is Retry.HERE:
            tries = tries.here()
        elif retry is Retry.ELSEWHERE:
            budget -= 1
            tries = tries.elsewhere([number])


@given(
    rounds=st.lists(st.tuples(st.sampled_from(RoundOutcome), NUMBERS), min_size=1, max_size=40),
    budget=st.integers(0, 5),
)
def test_never_more_tries_than_allowed_nor_more_retries_than_paid_for(
    rounds: list[tuple[RoundOutcome, int]], budget: int
) -> None:
    seen = list(carried_out(iter(rounds), budget))
    retries = [retry for _, retry in seen]
    paid = retries.count(Retry.ELSEWHERE)
    assert paid <= budget
    assert max(tries.count for tries, _ in seen) <= min(MOST, 1 + paid)
    assert retries.count(Retry.HERE) <= paid  # it is paid for by the retry that found nobody


@given(outcomes=st.lists(st.sampled_from(FAILURES), min_size=MOST, max_size=MOST))
def test_a_request_that_only_fails_ends(outcomes: list[RoundOutcome]) -> None:
    """Wherever it is sent, and whatever it may cost."""
    rounds = itertools.chain.from_iterable(
        zip(outcomes, itertools.repeat(0), strict=False) for _ in range(10)
    )
    *_, (tries, retry) = carried_out(rounds, 100)
    assert retry is Retry.GIVE_UP
    assert tries.count <= MOST
