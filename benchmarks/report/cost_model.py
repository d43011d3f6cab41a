"""How fast a routed pair can be at all, from its step times and how often each model steps.

Per output token of the group, with b requests a batch, the models' steps take

    L_slm(b)/b + p · L_llm(bp)/(bp)

when the two never step at once and all requests step together (`in_step_ms`), p being the share of
tokens that the large model makes. Where the models run on devices of their own the two terms
overlap, and with delayed batching the large model's batches are larger than bp; so `least_ms` takes
the largest batches there can be, adds the terms on shared cores and takes the longer of them else.
It cannot be less than the *cycle* either: each of n users waits for a small step and, at p of the
tokens, for a large one.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec


class PairCosts(msgspec.Struct, frozen=True, kw_only=True):
    """Step times of a pair of models.

    small_ms, large_ms: of a decode step at batch sizes 1, 2, … (the last value holds beyond).
    ingest_ms: for each token that the large model reads beyond a decode step's one a request.
    shared: both run on the same cores, so that one of them steps at a time.
    """

    small_ms: list[float]
    large_ms: list[float]
    ingest_ms: float = 0.0
    shared: bool = False


class Steps(msgspec.Struct, frozen=True):
    """How often each model steps for a request, per token of its response."""

    small: float
    large: float


def steps(algorithm: str, share: float) -> Steps:
    """Of a routed response whose `share` of tokens the large model makes.

    R2R, CITER and Co-LLM have the small model step before each token, and drop what it made when it
    hands over. R-Stitch and ME leave steps out; what R-Stitch drops isn't counted (a bound stays
    one).
    """
    return Steps(1.0 - share if algorithm in ("r_stitch", "me") else 1.0, share)


def cycle_ms(costs: PairCosts, steps: Steps) -> float:
    """Of one user alone: the shortest time between its tokens, on average."""
    ingested = costs.ingest_ms * (1.0 - steps.large)
    return steps.small * costs.small_ms[0] + steps.large * costs.large_ms[0] + ingested


def in_step_ms(costs: PairCosts, steps: Steps, n: int) -> float:
    """Per token of n users who all step together: L_slm(b)/b + p · L_llm(bp)/(bp), b = n.

    A large batch holds one request at least.
    """
    large_batch = max(1.0, n * steps.large)
    small = steps.small * at(costs.small_ms, n) / n
    large = steps.large * at(costs.large_ms, large_batch) / large_batch
    return small + large + costs.ingest_ms * (1.0 - steps.large)


def least_ms(costs: PairCosts, steps: Steps, n: int) -> float:
    """Per token of n users, however their steps are scheduled."""
    small = steps.small * _cheapest(costs.small_ms, n)
    large = steps.large * _cheapest(costs.large_ms, n) + costs.ingest_ms * (1.0 - steps.large)
    work = small + large if costs.shared else max(small, large)
    return max(work, cycle_ms(costs, steps) / n)


def large_alone_ms(costs: PairCosts, n: int) -> float:
    """Per token of n users of the large model alone."""
    return at(costs.large_ms, n) / n


def at(step_ms: Sequence[float], batch: float) -> float:
    """A step's latency at a mean batch size, between whole ones by interpolation."""
    below = int(batch)
    low, high = (step_ms[min(b, len(step_ms)) - 1] for b in (below, below + 1))
    return low + (high - low) * (batch - below)


def _cheapest(step_ms: Sequence[float], n: int) -> float:
    return min(at(step_ms, b) / b for b in range(1, n + 1))
