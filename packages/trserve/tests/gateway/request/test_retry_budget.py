"""trserve.gateway.request.retry_budget: retries are a share of the requests, whatever fails."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trserve.gateway.request.retry_budget import RetryBudget, RetrySettings

SETTINGS = RetrySettings(share=0.2, per_second=1.0, most=5.0)


def test_when_everything_fails_the_load_grows_by_the_share() -> None:
    budget = RetryBudget(SETTINGS)
    retries = 0
    for request in range(10_000):  # a thousand a second
        now = request / 1000
        budget.requested(now)
        retries += budget.spend(now)
    assert retries == pytest.approx(0.2 * 10_000 + 1.0 * 10 + 5, abs=2)


def test_a_lone_request_may_be_retried_and_time_earns_more() -> None:
    budget = RetryBudget(SETTINGS)
    budget.requested(100.0)
    assert [budget.spend(100.0) for _ in range(6)] == [True] * 5 + [False]
    assert not budget.spend(100.9)
    assert budget.spend(101.0)
    assert [budget.spend(9999.0) for _ in range(6)] == [True] * 5 + [False]


def test_to_ask_costs_nothing() -> None:
    budget = RetryBudget(SETTINGS)
    assert all(budget.affords(0.0) for _ in range(100))
    assert [budget.spend(0.0) for _ in range(6)] == [True] * 5 + [False]
    assert not budget.affords(0.9)
    assert budget.affords(1.0)


@given(
    steps=st.lists(st.tuples(st.floats(0, 3), st.booleans()), max_size=200),
    since=st.integers(0, 199),
)
def test_no_span_of_time_sees_more_retries_than_it_earned(
    steps: list[tuple[float, bool]], since: int
) -> None:
    budget = RetryBudget(SETTINGS)
    now = spanned = 0.0
    requests = retries = 0
    for at, (gap, is_request) in enumerate(steps):
        now += gap
        counted = at >= since
        spanned += gap if at > since else 0.0
        if is_request:
            budget.requested(now)
            requests += counted
        else:
            retries += budget.spend(now) and counted
    assert retries <= 0.2 * requests + 1.0 * spanned + 5 + 1e-6


def test_other_settings_leave_what_is_saved_up() -> None:
    budget = RetryBudget(RetrySettings(share=0.0, per_second=0.0, most=2.0))
    assert budget.spend(0.0)
    budget.change(RetrySettings(share=1.0, per_second=0.0, most=2.0))
    assert budget.spend(0.0)
    assert not budget.spend(0.0)
    budget.requested(0.0)
    assert budget.spend(0.0)
