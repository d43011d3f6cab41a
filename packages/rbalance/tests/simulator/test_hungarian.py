"""rbalance.simulator.hungarian: the matching is the best there is, and leaves no trace."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rbalance.cluster import article_cluster, scaled
from rbalance.policies.registry import Ingredients
from rbalance.policies.route_balance import RouteBalance
from rbalance.simulator.hungarian import matching
from rbalance.simulator.policy_registry import open_policy
from rbalance.state.instance_state import InstanceState
from tests.support.rbalance.synthetic_pool import synthetic_pool

pytest.importorskip("scipy")

POOL = synthetic_pool()
SMALL = scaled(article_cluster(), 4)
OF = Ingredients(SMALL, POOL.prior_of(SMALL))


def opened(weights: str = "uniform") -> RouteBalance:
    policy = open_policy(f"route-balance:weights={weights}", OF)
    assert isinstance(policy, RouteBalance)
    return policy


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 30), st.lists(st.integers(0, 3), max_size=6))
def test_no_other_assignment_has_a_higher_sum_of_scores(first: int, busy: list[int]) -> None:
    policy, state = opened(), InstanceState(SMALL)
    for key, at in enumerate(busy):
        state.dispatch(key, at, 200, 300, now=0.0)
    workload = POOL.workload(np.arange(40.0), SMALL)
    batch = workload.batch(range(first, first + 3))
    policy.decide(batch, state, 0.0)
    view = state.view
    columns: tuple[Any, ...] = (view.waiting, view.pending_decode, view.pending_prefill)
    before = [column.copy() for column in columns]
    found = matching(policy, batch, view)
    for column, was in zip(columns, before, strict=True):
        np.testing.assert_array_equal(column, was)

    prompt = np.rint(batch.prompt_tokens.mean())
    length = np.rint(batch.predictions.length.mean(axis=0, dtype=np.float64)[view.model])
    placed = np.empty((3, 3, 4))  # request, place, instance
    for at in range(4):
        kept = [column[at] for column in columns]
        for place in range(3):
            placed[:, place, at] = policy.scores(batch, view)[:, at]
            view.waiting[at] += 1
            view.pending_decode[at] += length[at]
            view.pending_prefill[at] += prompt
        for column, was in zip(columns, kept, strict=True):
            column[at] = was

    def total(chosen: tuple[int, ...]) -> float:
        """The best order of those on the same instance; three requests, so by trying all."""
        best = -np.inf
        for order in product(range(3), repeat=3):
            taken = list(zip(chosen, order, strict=True))
            if len(set(taken)) == 3:
                sums = (placed[row, place, at] for row, (at, place) in enumerate(taken))
                best = max(best, float(sum(sums)))
        return best

    most = max(total(chosen) for chosen in product(range(4), repeat=3))
    assert total(tuple(found.tolist())) == pytest.approx(most, abs=1e-6)


def test_a_request_alone_is_matched_as_it_is_decided() -> None:
    policy, state = opened("quality"), InstanceState(article_cluster())
    workload = POOL.workload(np.arange(30.0), article_cluster())
    for row in range(30):
        batch = workload.batch([row])
        decided = policy.decide(batch, state, 0.0).instance
        assert matching(policy, batch, state.view).tolist() == decided.tolist()
        state.dispatch(row, int(decided[0]), 100, 100, 0.0)


def test_what_nothing_can_take_is_matched_with_nothing() -> None:
    policy, state = opened(), InstanceState(SMALL)
    for at in range(4):
        state.drain(at)
    batch = POOL.workload(np.arange(2.0), SMALL).batch([0, 1])
    policy.decide(batch, state, 0.0)
    assert matching(policy, batch, state.view).tolist() == [-1, -1]
