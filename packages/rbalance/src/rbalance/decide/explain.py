"""What a decision about one request would be and why, instance by instance; nothing is dispatched.

Scores, terms, costs and times are `trcore.assign`'s own, what keeps an instance out `why_not`'s.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from rbalance.decide.why_not_text import why_not_text
from rbalance.policies.candidates import CEILINGS, reasons
from rbalance.policies.policy import NO_INSTANCE, WeightedPolicy
from rbalance.policies.route_balance import RouteBalance
from rbalance.policies.terms import Terms
from rbalance.policies.weights import PRESETS
from rbalance.predict.predictions import Prior
from trcore import WhyNot

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rbalance.policies.batch import RequestBatch
    from rbalance.policies.policy import Policy, Prices
    from rbalance.state.instance_state import InstanceState


@dataclass(frozen=True, slots=True)
class CandidateReport:
    """One instance as the request sees it.

    why: all that keeps the request from it; 0 for a candidate.
    why_not: the first of that in words; None for a candidate.
    quality, usd, seconds: predicted of an answer there, not normalised; None where it is closed or
        has no room.
    terms: of a candidate, from a policy that scores.
    running, waiting: requests, in the view that decisions are made on.
    """

    instance: int
    tier: str
    model: str
    why: WhyNot
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

    choice: None where there is none to tell.
    note: says why, or what is odd about it.
    """

    candidates: tuple[CandidateReport, ...]
    choice: int | None
    note: str = ""


def explain(policy: Policy, batch: RequestBatch, state: InstanceState, now: float) -> Explanation:
    """For a batch of one, with the state as it is: refresh it before.

    A policy that draws at random is not asked for its choice. Raises ValueError: not one request;
    and whatever the policy raises.
    """
    if len(batch) != 1:
        raise ValueError(f"one request can be explained at a time, not {len(batch)}")
    placed = None if policy.draws else policy.decide(batch, state, now)
    weighted = policy if isinstance(policy, WeightedPolicy) else None
    scored = None if weighted is None else _scored(weighted, batch, state)
    pricing = RouteBalance(PRESETS["uniform"], _ones(batch)) if weighted is None else weighted
    prices = pricing.prices(batch, state.view)
    found = reasons(batch, state.view, None if weighted is None else prices)[0]
    if placed is not None and placed.relaxed:
        found &= ~np.uint8(CEILINGS)
    quality = _quality(batch, pricing.prior, state)
    candidates = tuple(
        _report(at, batch, state, WhyNot(int(found[at])), float(quality[at]), prices, scored)
        for at, tier in enumerate(state.tier)
        if tier is not None
    )
    if placed is None:
        return Explanation(candidates, None, "this policy draws at random")
    if (choice := int(placed.instance[0])) == NO_INSTANCE:
        return Explanation(candidates, None, "no instance may take it")
    note = "no instance is within its ceilings: they were lifted" if placed.relaxed else ""
    return Explanation(candidates, choice, note)


def _scored(
    policy: WeightedPolicy, batch: RequestBatch, state: InstanceState
) -> NDArray[np.float64]:
    """float64 [4, I]: the score, and the three terms: a term is the score where it has all weight.

    -inf for those that are no candidates.
    """
    own = np.full((1, 3), np.nan) if batch.weights is None else batch.weights
    each = [replace(batch, weights=weights[None]) for weights in (*own, *np.eye(3))]
    return np.concatenate([policy.scores(one, state.view) for one in each])


def _ones(batch: RequestBatch) -> Prior:
    """For a policy without a prior: 1 stands in for predictions that are not finite."""
    ones = np.ones(batch.predictions.quality.shape[1], np.float32)
    return Prior(("",) * len(ones), ones, ones)


def _quality(batch: RequestBatch, prior: Prior, state: InstanceState) -> NDArray[np.float64]:
    """float64 [I], of each instance's model."""
    predicted = batch.predictions.quality[0]
    return np.where(np.isfinite(predicted), predicted, prior.quality)[state.view.model].astype(
        np.float64
    )


def _report(
    at: int,
    batch: RequestBatch,
    state: InstanceState,
    why: WhyNot,
    quality: float,
    prices: Prices,
    scored: NDArray[np.float64] | None,
) -> CandidateReport:
    tier, view = state.tier[at], state.view
    assert tier is not None
    usd, seconds = float(prices.usd[0, at]), float(prices.seconds[0, at])
    known = not np.isnan(usd)
    terms = None
    if scored is not None and not why:
        score, part, cost, latency = scored[:, at].tolist()
        terms = Terms(part, cost, latency, score, usd, seconds)
    tokens = int(batch.prompt_tokens[0]) + int(batch.max_tokens[0])
    lacking = int(batch.needs[0]) & ~int(view.capabilities[at])
    return CandidateReport(
        instance=at,
        tier=tier.name,
        model=tier.model,
        why=why,
        why_not=why_not_text(why, tokens, int(view.context_window[at]), lacking, usd, seconds),
        quality=quality if known else None,
        usd=usd if known else None,
        seconds=seconds if known else None,
        terms=terms,
        running=int(view.running[at]),
        waiting=int(view.waiting[at]),
    )
