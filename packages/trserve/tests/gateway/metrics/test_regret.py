"""What a decision cost, from its terms and the time that its request took."""

from __future__ import annotations

import pytest

from rbalance import Terms, Weights
from trserve.gateway.metrics.regret import regret_estimate

EVEN = Weights(0.4, 0.1, 0.5)


def terms(latency: float, seconds: float) -> Terms:
    return Terms(quality=1, cost=1, latency=latency, score=1, usd=0, seconds=seconds)


def test_a_request_as_slow_as_the_slowest_candidate_lost_the_whole_term() -> None:
    # 2 of the slowest one's 10 seconds were predicted
    assert regret_estimate(terms(0.8, 2.0), EVEN, 10.0) == pytest.approx(0.5 * 0.8)


@pytest.mark.parametrize("seconds", [0.0, 1.0, 2.0])
def test_in_time_or_early_costs_nothing(seconds: float) -> None:
    assert regret_estimate(terms(0.8, 2.0), EVEN, seconds) == 0.0


def test_where_all_are_equally_fast_nothing_is_known() -> None:
    assert regret_estimate(terms(1.0, 2.0), EVEN, 100.0) == 0.0


def test_who_does_not_care_for_time_regrets_none() -> None:
    assert regret_estimate(terms(0.8, 2.0), Weights(1, 0, 0), 10.0) == 0.0
