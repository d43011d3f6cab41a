"""What a decision about one request would be and why, instance by instance; nothing is dispatched.

Scores, terms, costs and times are `trcore.assign`'s own, asked for again in other ways.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rbalance.policies.policy import NO_INSTANCE
from rbalance.policies.route_balance import RouteBalance
from rbalance.policies.survivors import survivors
from rbalance.policies.terms import Terms
from trcore import AssignRules, assign

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rbalance.policies.batch import Batch
    from rbalance.policies.policy import Policy
    from rbalance.state.instance_state import InstanceState


@dataclass(frozen=True, slots=True)
class CandidateReport:
    """One instance as the request sees it.

    why_not: None for a candidate. quality, usd and seconds: predicted of an answer there, not
    normalised; None where it is closed or has no room. terms: of a candidate, from a policy that
    scores. running and waiting: requests, in the view that decisions are made on.
    """

    instance: int
    tier: str
    model: str
    why_not: str | None
    quality: float | None
    usd: float | None
    seconds: float | None
    terms: Terms | None
    running: int
    waiting: int


@dataclass(frozen=True, slots=True)
class Explanation:
    """Every instance there is, by number, and the one that would be chosen.

    choice: None where there is none to tell; note says why, or what is odd about it.
    """

    candidates: tuple[CandidateReport, ...]
    choice: int | None
    note: str = ""


def explain(policy: Policy, batch: Batch, state: InstanceState, now: float) -> Explanation:
    """For a batch of one, with the state as it is: refresh it before.

    A policy that draws at random is not asked for its choice. Raises ValueError: not one request;
    and whatever the policy raises.
    """
    if len(batch) != 1:
        raise ValueError(f"one request can be explained at a time, not {len(batch)}")
    placed = None if policy.draws else policy.decide(batch, state, now)
    scored = _scored(policy, batch, state) if isinstance(policy, RouteBalance) else None
    may_go = survivors(batch, state)[0] if scored is None else scored[0] > -math.inf
    prices = _prices(policy, batch, state)
    candidates = tuple(
        _report(at, batch, state, bool(may_go[at]), prices[at], scored)
        for at, tier in enumerate(state.tier)
        if tier is not None
    )
    if placed is None:
        return Explanation(candidates, None, "this policy draws at random")
    if (choice := int(placed.instance[0])) == NO_INSTANCE:
        return Explanation(candidates, None, "no instance may take it")
    note = "no instance is within its ceilings: they were lifted" if placed.relaxed else ""
    return Explanation(candidates, choice, note)


def _scored(policy: RouteBalance, batch: Batch, state: InstanceState) -> NDArray[np.float64]:
    """float64 [4, I]: the score, and the three terms: a term is the score where it has all weight.

    -inf for those that are no candidates.
    """
    own = np.full((1, 3), np.nan) if batch.weights is None else batch.weights
    each = [replace(batch, weights=weights[None]) for weights in (*own, *np.eye(3))]
    return np.concatenate([policy.scores(one, state.view) for one in each])


def _prices(policy: Policy, batch: Batch, state: InstanceState) -> NDArray[np.float64]:
    """float64 [I, 3]: quality, USD and seconds; NaN where an instance is closed or has no room.

    The request once for each instance, that one alone allowed: no copy meets another one.
    """
    if isinstance(policy, RouteBalance):
        quality, length = policy.prior.quality, policy.prior.length
    else:
        quality, length = (
            np.where(np.isfinite(row[0]), row[0], 1)
            for row in (batch.predictions.quality, batch.predictions.length)
        )
    there = [at for at, tier in enumerate(state.tier) if tier is not None]
    count = len(there)
    alone = np.zeros((count, len(state.view)), np.bool_)
    alone[np.arange(count), there] = True

    def repeated(column: NDArray[Any]) -> NDArray[Any]:
        return np.repeat(column, count, axis=0)

    terms = np.empty((count, 6))
    assign(
        state.view,
        AssignRules(quality.tolist(), length.tolist()),
        (1.0, 0.0, 0.0),
        repeated(batch.prompt_tokens),
        repeated(batch.max_tokens),
        repeated(batch.predictions.quality),
        repeated(batch.predictions.length),
        np.empty(count, np.int32),
        np.empty(count, np.int32),
        instances=alone,
        terms=terms,
        commit=False,
    )
    prices = np.full((len(state.view), 3), np.nan)
    prices[there] = terms[:, [0, 4, 5]]
    return prices


def _report(
    at: int,
    batch: Batch,
    state: InstanceState,
    candidate: bool,
    prices: NDArray[np.float64],
    scored: NDArray[np.float64] | None,
) -> CandidateReport:
    tier = state.tier[at]
    assert tier is not None
    quality, usd, seconds = (None if np.isnan(price) else float(price) for price in prices)
    terms = None
    if scored is not None and candidate:
        assert usd is not None
        assert seconds is not None
        score, part, cost, latency = scored[:, at].tolist()
        terms = Terms(part, cost, latency, score, usd, seconds)
    return CandidateReport(
        instance=at,
        tier=tier.name,
        model=tier.model,
        why_not=None if candidate else _why_not(at, batch, state, prices),
        quality=quality,
        usd=usd,
        seconds=seconds,
        terms=terms,
        running=int(state.view.running[at]),
        waiting=int(state.view.waiting[at]),
    )


def _why_not(at: int, batch: Batch, state: InstanceState, prices: NDArray[np.float64]) -> str:
    """The first of the filters that an instance which is no candidate does not pass."""
    view = state.view
    tokens = int(batch.prompt_tokens[0]) + int(batch.max_tokens[0])
    lacking = int(batch.needs[0]) & ~int(view.capabilities[at])
    if view.draining[at]:
        return "draining"
    if not view.healthy[at]:
        return "unhealthy"
    if tokens > view.context_window[at]:
        return f"prompt and answer of {tokens} tokens do not fit its {view.context_window[at]}"
    if lacking:
        return f"lacks capability bits {lacking:#x}"
    if batch.allowed is not None and not batch.allowed[0, view.model[at]]:
        return "model not allowed"
    if batch.not_on is not None and at in batch.not_on[0]:
        return "excluded"
    if batch.max_usd is not None and prices[1] > batch.max_usd[0]:
        return f"above max_usd: {prices[1]:.3g} USD"
    return f"above max_seconds: {prices[2]:.3g} s"
