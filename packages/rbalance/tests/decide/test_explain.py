"""rbalance.decide.explain: what it tells is what is decided, and nothing changes by it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rbalance.cluster import Cluster, article_cluster
from rbalance.decide.balancer import Balancer, Routed
from rbalance.decide.balancer_stats import BalancerStats
from rbalance.decide.explain import CandidateReport, explain
from rbalance.decide.foresight import Foreseen, Foresight
from rbalance.errors import NoInstanceError
from rbalance.policies.batch import RequestBatch, RouteRequest
from rbalance.policies.candidates import CEILINGS, reasons, survivors
from rbalance.policies.policy import Policy
from rbalance.policies.registry import Ingredients
from rbalance.policies.route_balance import RouteBalance, ScoreRules
from rbalance.policies.weights import PRESETS, Weights
from rbalance.predict.predictions import Predictions, Prior
from rbalance.simulator.policy_registry import POLICIES, open_policy
from rbalance.state.instance_state import InstanceState
from rbalance.state.telemetry import Telemetry
from tests.support.rbalance.synthetic_pool import synthetic_pool
from trcore import WhyNot, assign

TIERS = article_cluster().tiers
NARROW, ABLE = replace(TIERS[0], context=2000, slots=2), replace(TIERS[1], capabilities=3)
CLUSTER = Cluster((NARROW, ABLE, TIERS[2]))
PRIOR = Prior(CLUSTER.models, np.array([0.3, 0.4, 0.5], np.float32), np.full(3, 60, np.float32))
COUNT = len(CLUSTER.instances)
POOL = synthetic_pool()
ARTICLE = article_cluster()
OF = Ingredients(ARTICLE, POOL.prior_of(ARTICLE), POOL.labelled(ARTICLE))


@st.composite
def states(draw: st.DrawFn) -> InstanceState:
    state = InstanceState(CLUSTER, capacity=COUNT + 2)
    numbers = st.integers(0, COUNT - 1)
    tokens = st.integers(1, 3000)
    for key, (at, prompt, length) in enumerate(draw(st.lists(st.tuples(numbers, tokens, tokens)))):
        state.dispatch(key, at, prompt, length, 0.0)
        state.progress(key, draw(st.integers(0, 2)), 0.1)
    for at in draw(st.sets(numbers, max_size=4)):
        state.report(at, Telemetry(draw(st.integers(0, 9)), draw(st.integers(0, 9))), 0.1)
    for at in draw(st.sets(numbers, max_size=3)):
        state.drain(at)
    for at in draw(st.sets(numbers, max_size=3)):
        state.set_healthy(at, False)
    state.refresh(0.2)
    return state


@st.composite
def batches(draw: st.DrawFn) -> RequestBatch:
    ceilings = st.sampled_from([math.inf, 0.0, 1e-5, 1.0])
    models = st.lists(st.sampled_from(CLUSTER.models), min_size=1).map(tuple)
    request = RouteRequest(
        key="r",
        prompt="p",
        prompt_tokens=draw(st.integers(0, 2500)),
        max_tokens=draw(st.integers(1, 2500)),
        needs=draw(st.sampled_from([0, 0, 1, 2, 4])),
        models=draw(st.none() | models),
        not_on=draw(st.lists(st.integers(0, COUNT + 9), max_size=3).map(tuple)),
        max_usd=draw(ceilings),
        max_seconds=draw(ceilings),
        weights=draw(st.none() | st.sampled_from([Weights(0, 0, 1), *PRESETS.values()])),
    )
    some = st.sampled_from([0.0, 0.25, 0.5, 0.9, math.nan])
    quality = [draw(some) for _ in CLUSTER.models]
    length = [draw(st.sampled_from([1.0, 60.0, 700.0, math.inf])) for _ in CLUSTER.models]
    known = Predictions(
        np.array([quality], np.float32), np.array([length], np.float32), np.zeros((1, 3), np.bool_)
    )
    return RequestBatch.of([request], CLUSTER.models, known)


RULES = st.builds(
    ScoreRules,
    quality_norm=st.sampled_from(["none", "minmax"]),
    on_no_candidate=st.sampled_from(["fail", "cheapest", "fastest"]),
)


def first_of_the_best(candidates: Sequence[CandidateReport], state: InstanceState) -> int | None:
    """The score decides; then fewer requests, the longest unused, the lowest number."""

    def rank(each: CandidateReport) -> tuple[float, int, int, int]:
        assert each.terms is not None
        load, last = each.running + each.waiting, int(state.view.last_assigned[each.instance])
        return -each.terms.score, load, last, each.instance

    return min((each for each in candidates if each.terms), key=rank).instance


@settings(max_examples=150, deadline=None)
@given(states(), batches(), RULES)
def test_terms_combine_to_the_scores_and_the_best_is_chosen(
    state: InstanceState, batch: RequestBatch, rules: ScoreRules
) -> None:
    policy = RouteBalance(PRESETS["balanced"], PRIOR, rules=rules)
    found = explain(policy, batch, state, 0.2)
    scores = policy.scores(batch, state.view)[0]
    placed = policy.decide(batch, state, 0.2)
    assert found.choice == (int(placed.instance[0]) if placed.instance[0] >= 0 else None)
    assert [each.instance for each in found.candidates] == list(range(COUNT))
    weights = [*policy.weights] if batch.weights is None else batch.weights[0].tolist()
    candidates = [each for each in found.candidates if each.why_not is None]
    assert {each.instance for each in candidates} == set(np.flatnonzero(np.isfinite(scores)))
    for each in candidates:
        assert each.terms is not None
        assert each.quality is not None
        assert each.terms.score == scores[each.instance]
        parts = (each.terms.quality, each.terms.cost, each.terms.latency)
        assert math.isclose(np.dot(weights, parts), each.terms.score, abs_tol=1e-12)
        for predicted, part, name in (
            (each.usd, each.terms.cost, "usd"),
            (each.seconds, each.terms.latency, "seconds"),
        ):
            among = [getattr(other, name) for other in candidates]
            alike = min(among) == max(among)
            assert part == (1 if alike else 1 - predicted / max(among))
    if not candidates:
        assert (found.choice, found.note) == (None, "no instance may take it")
    elif placed.relaxed:
        assert "lifted" in found.note
    else:
        assert found.choice == first_of_the_best(candidates, state)
        assert placed.terms is not None
        terms = next(each.terms for each in candidates if each.instance == found.choice)
        assert terms is not None
        told = (terms.quality, terms.cost, terms.latency, terms.score, terms.usd, terms.seconds)
        assert told == tuple(placed.terms[0])


@settings(max_examples=100, deadline=None)
@given(states(), batches())
def test_who_may_not_take_it_is_told_the_filter_that_keeps_it_out(
    state: InstanceState, batch: RequestBatch
) -> None:
    view = state.view
    tokens = int(batch.prompt_tokens[0] + batch.max_tokens[0])
    survived = survivors(batch, state.view)[0]
    for each in explain(RouteBalance(PRESETS["cost"], PRIOR), batch, state, 0.2).candidates:
        at, why_not = each.instance, each.why_not or ""
        assert (each.why_not is None) == (each.why == 0)
        assert int(each.why & ~CEILINGS) == reasons(batch, view)[0, at]
        assert why_not.startswith("above max_") <= bool(survived[at])
        assert (why_not == "draining") == view.draining[at]
        assert (why_not == "unhealthy") == (not view.draining[at] and not view.healthy[at])
        if "do not fit" in why_not:
            assert tokens > view.context_window[at]
            assert str(tokens) in why_not
        if "capability" in why_not:
            assert batch.needs[0] & ~view.capabilities[at]
        if why_not == "model not allowed":
            assert batch.allowed is not None
            assert not batch.allowed[0, view.model[at]]
        if why_not == "excluded":
            assert batch.not_on is not None
            assert at in batch.not_on[0]
        if "max_usd" in why_not:
            assert batch.max_usd is not None
            assert each.usd is not None
            assert each.usd > batch.max_usd[0]
        if "max_seconds" in why_not:
            assert batch.max_seconds is not None
            assert each.seconds is not None
            assert each.seconds > batch.max_seconds[0]


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_every_policy_is_explained_and_decides_afterwards_as_if_it_had_not_been(name: str) -> None:
    policy, untouched = open_policy(name, OF), open_policy(name, OF)
    workload = POOL.workload(np.arange(30.0), ARTICLE)
    state = InstanceState(ARTICLE)
    state.drain(4)
    for row in range(30):
        one = workload.batch([row])
        found = explain(policy, one, state, 0.0)
        chosen = int(untouched.decide(one, state, 0.0).instance[0])
        assert policy.decide(one, state, 0.0).instance[0] == chosen
        assert found.choice == (None if policy.draws else chosen)
        assert ("at random" in found.note) == policy.draws
        assert [each.instance for each in found.candidates if each.why_not] == [4]
        assert all(each.usd and each.seconds for each in found.candidates if not each.why_not)
        assert (found.candidates[0].terms is not None) == (name == "route-balance")
        state.dispatch(row, chosen, 10, 50, 0.0)


def test_numbers_that_nobody_has_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor are prices asked for one instance at a time: there may be thousands."""
    one = POOL.workload(np.arange(1.0), ARTICLE).batch([0])
    policy = open_policy("route-balance", OF)
    asked: list[int] = []

    def counted(*given: Any, **more: Any) -> Any:
        asked.append(len(given[3]))
        return assign(*given, **more)

    monkeypatch.setattr("rbalance.policies.route_balance.assign", counted)
    count = len(ARTICLE.instances)
    states = [InstanceState(ARTICLE), InstanceState(ARTICLE, capacity=count + 500)]
    exact, spare = (explain(policy, one, state, 0.0) for state in states)
    assert exact == spare
    assert set(asked) == {1}
    assert len(asked) == 2 * (1 + 4), "the decision, its score and three terms"


def test_policies_that_draw_are_those_whose_dispatch_does() -> None:
    drawing = {name for name in POLICIES if open_policy(name, OF).draws}
    assert drawing == {"random", "power-of-two"}
    assert open_policy("passthrough:dispatch=power-of-two", OF).draws


def test_one_request_at_a_time() -> None:
    two = POOL.workload(np.arange(2.0), ARTICLE).batch([0, 1])
    with pytest.raises(ValueError, match="one request can be explained at a time, not 2"):
        explain(open_policy("infaas", OF), two, InstanceState(ARTICLE), 0.0)


@pytest.mark.asyncio
async def test_a_balancer_explains_what_it_then_does() -> None:
    state, stats = InstanceState(CLUSTER, capacity=COUNT + 1), BalancerStats()
    policy: Policy = RouteBalance(PRESETS["quality"], PRIOR)
    foresight = Foresight(lambda given: Foreseen(PRIOR.predictions(len(given))), PRIOR, 60.0, stats)
    request = RouteRequest(key=1, prompt="p", prompt_tokens=10, max_tokens=100, not_on=(8,))
    async with Balancer(state, policy, foresight, stats) as balancer:
        found = await balancer.explain(request)
        assert len(state.in_flight) == 0
        assert stats.requests == 0
        routed = await balancer.route(request)
        assert isinstance(routed, Routed)
        assert routed.instance == found.choice
        assert routed.terms == found.candidates[routed.instance].terms
        assert found.candidates[8].why_not == "excluded"
        nowhere = replace(request, key=2, needs=1 << 9)
        assert (await balancer.explain(nowhere)).choice is None
        with pytest.raises(NoInstanceError) as refused:
            await balancer.route(nowhere)
        told = await balancer.explain(nowhere)
        assert refused.value.why == {each.instance: each.why for each in told.candidates}
        assert refused.value.why[8] == WhyNot.LACKS_CAPABILITY | WhyNot.EXCLUDED
    with pytest.raises(RuntimeError, match="not running"):
        await balancer.explain(request)
