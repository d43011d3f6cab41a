"""trserve.gateway.access.rate_limit: what passes stays within the limits, and waits are true."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trserve.gateway.access.rate_limit import KeyLimits, LimitReached, RateLimiter, TokenBucket

TIMES = st.floats(0, 200, allow_subnormal=False)


def test_a_minutes_worth_at_once_and_then_evenly() -> None:
    bucket = TokenBucket(60)
    assert [bucket.take(1000.0) for _ in range(60)] == [0.0] * 60
    assert bucket.take(1000.0) == pytest.approx(1.0)
    assert bucket.take(1000.5) == pytest.approx(0.5)
    assert bucket.take(1001.0) == 0
    assert bucket.take(1001.0, 30) == pytest.approx(30)
    assert [bucket.take(9999.0) for _ in range(61)] == [0.0] * 60 + [pytest.approx(1.0)]


def test_more_than_a_minutes_worth_passes_when_nothing_else_was_taken_and_is_waited_off() -> None:
    bucket = TokenBucket(100)
    assert bucket.take(0.0, 250) == 0
    assert bucket.take(0.0, 1) == pytest.approx(151 * 0.6)
    assert bucket.take(0.0, 1000) == pytest.approx(250 * 0.6)


def test_what_was_not_used_comes_back_and_what_was_used_beyond_is_owed() -> None:
    bucket = TokenBucket(100)
    assert bucket.take(0.0, 100) == 0
    bucket.settle(0.0, taken=100, used=10)
    assert bucket.take(0.0, 90) == 0
    bucket.settle(0.0, taken=90, used=120)
    assert bucket.take(0.0, 1) == pytest.approx(31 * 0.6)
    bucket.settle(0.0, taken=1000, used=0)
    assert bucket.take(0.0, 100) == 0, "never more than full"
    assert bucket.take(0.0, 1) > 0


@given(
    rate=st.floats(1, 1e7),
    steps=st.lists(st.tuples(TIMES, st.floats(0.001, 3)), min_size=1, max_size=30),
    since=st.integers(0, 29),
)
def test_no_span_sees_more_than_its_minutes_and_one_and_each_wait_is_true(
    rate: float, steps: list[tuple[float, float]], since: int
) -> None:
    bucket = TokenBucket(rate)
    now, span, taken, largest = 1e6, 0.0, 0.0, 0.0
    for at, (gap, share) in enumerate(steps):
        now += gap
        amount = share * rate
        wait = bucket.take(now, amount)
        if wait > 0:
            assert wait < 0.001 or bucket.wait(now + wait / 2, amount) > 0
            assert bucket.wait(now + wait, amount) == 0
            now += wait
            assert bucket.take(now, amount) == 0
        if at > since:
            span += gap + wait
        if at >= since:
            taken += amount
            largest = max(largest, amount - rate)
    assert taken <= rate * (span / 60 + 1) * (1 + 1e-4) + max(0.0, largest)


def refused(refusal: LimitReached | None, limit: str, retry_s: float) -> bool:
    assert refusal is not None
    return refusal.limit == limit and refusal.retry_s == pytest.approx(retry_s)


def test_a_refused_request_leaves_no_trace() -> None:
    limiter = RateLimiter(KeyLimits(requests_per_minute=2, tokens_per_minute=100, concurrency=2))
    assert limiter.take(0.0, 60) is None
    assert refused(limiter.take(0.0, 60), "tokens_per_minute", 12.0)
    assert limiter.take(0.0, 40) is None, "neither a request nor tokens were counted"
    assert limiter.take(0.0, 0) == LimitReached("concurrency", 1.0)
    limiter.release(0.0, 60, 60)
    assert refused(limiter.take(0.0, 0), "requests_per_minute", 30.0)
    assert limiter.running == 1


def test_no_limits_limit_nothing() -> None:
    limiter = RateLimiter(KeyLimits())
    assert all(limiter.take(0.0, 1e9) is None for _ in range(1000))
    for _ in range(1000):
        limiter.release(0.0, 1e9, 5)
    assert limiter.running == 0


def test_new_limits_count_what_runs_and_what_was_used_of_an_old_one() -> None:
    limiter = RateLimiter(KeyLimits(requests_per_minute=1, tokens_per_minute=10))
    assert limiter.take(0.0, 10) is None
    limiter.change(KeyLimits(requests_per_minute=5, tokens_per_minute=10, concurrency=1))
    assert limiter.take(0.0, 0) == LimitReached("concurrency", 1.0)
    limiter.release(0.0, 10, 10)
    assert refused(limiter.take(0.0, 1), "tokens_per_minute", 6.0)
    assert limiter.take(0.0, 0) is None
