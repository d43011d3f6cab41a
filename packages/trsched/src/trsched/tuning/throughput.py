"""Throughput of a group by its thresholds, and the best of them: exact, or else simulated."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

import trcore

Method = Literal["chain", "simulation"]

_CHAIN_REQUESTS = 32
_SEARCH_SEED, _SEED = 0, 1
_ENOUGH_MIXING = (
    0.2  # for the tokens of an effort; with less there are up to so many times as many:
)
_MOST_TIMES_AS_MANY = 10.0


@dataclass(frozen=True, slots=True)
class Situation:
    """All that throughput depends on, besides the thresholds.

    routing: P `[models, models]`: how often a step at model i leaves its request at model j.
    commits: C `[models, models]`: tokens that such a step adds to the response.
    step_seconds: L by model: seconds of a step for batches of 1 … `active`.
    active: N, requests at once.
    shared_device: whether the models take turns on one device.
    """

    routing: NDArray[np.float64]
    commits: NDArray[np.float64]
    step_seconds: Sequence[NDArray[np.float64]]
    active: int
    shared_device: bool

    @property
    def mixing(self) -> float:
        """How much of where a request was each of its steps forgets; p + q of two models."""
        return float(1.0 - np.sort(np.linalg.eigvals(self.routing).real)[-2])

    def alone(self) -> tuple[float, ...]:
        """Tokens a second of each model if it served all requests by itself."""
        return tuple(self.active / float(curve[self.active - 1]) for curve in self.step_seconds)


@dataclass(frozen=True, slots=True)
class Effort:
    """How much time a prediction may take.

    chain_states: a larger Markov chain isn't solved; steps are rounded by up to 1 % to fit it.
    least_mixing: below it the chain of models with devices of their own isn't solved: that takes
        ever longer the more seldom requests are handed over.
    search_tokens: tokens of each simulation that compares thresholds.
    tokens: tokens of each simulation whose throughput is reported.
    """

    chain_states: int
    least_mixing: float
    search_tokens: int
    tokens: int


LIVE = Effort(chain_states=5_000, least_mixing=0.05, search_tokens=4_000, tokens=20_000)
"""While serving: some hundredths of a second of one core."""

THOROUGH = Effort(chain_states=20_000, least_mixing=0.0, search_tokens=20_000, tokens=100_000)
"""For somebody who waits for it: seconds, with many requests."""


class Prediction(msgspec.Struct, frozen=True):
    """What thresholds give.

    thresholds: B by model.
    tokens_per_s: committed tokens a second; of a simulation, an estimate.
    method: how it was found.
    """

    thresholds: tuple[int, ...]
    tokens_per_s: float
    method: Method


class Throughput:
    """Of one situation; remembers what it found.

    Two models and up to 32 requests are solved as the Markov chain of TokenRouter (arXiv
    2610.12242, appendix on its model), all feasible thresholds at once, where the effort allows.
    Else thresholds are searched for by short simulations and reported by long ones, with other
    draws than those that picked them, and the same for all.

    best: the thresholds with the highest throughput that were found.
    compared: how many thresholds that was the best of.
    """

    best: Prediction
    compared: int

    def __init__(
        self, situation: Situation, effort: Effort, start: Sequence[int] | None = None
    ) -> None:
        """Find the best.

        start: thresholds that the search begins at and its result must beat; None: eager ones.
        """
        self._args = (
            situation.routing,
            situation.commits,
            situation.step_seconds,
            situation.active,
        )
        self._exclusive = situation.shared_device
        self._ones = [1] * len(situation.step_seconds)
        self._known: dict[tuple[int, ...], float] = {}
        mixing = situation.mixing
        more = float(np.clip(_ENOUGH_MIXING / max(mixing, 1e-9), 1.0, _MOST_TIMES_AS_MANY))
        self._tokens = int(effort.tokens * more)
        two = len(self._ones) == 2 and situation.active <= _CHAIN_REQUESTS
        if two and (situation.shared_device or mixing > effort.least_mixing):
            with suppress(trcore.StateSpaceTooLargeError):
                self._solve(effort.chain_states)
                return
        self._search(int(effort.search_tokens * more), start or self._ones)

    @property
    def eager(self) -> Prediction:
        """Every batch starts at once."""
        return self.of(self._ones)

    def of(self, thresholds: Sequence[int]) -> Prediction:
        """Of thresholds that cannot deadlock."""
        key = tuple(thresholds)
        if key not in self._known:
            assert self._method == "simulation"  # the chain was solved for all
            found = trcore.simulate(
                *self._args, key, tokens=self._tokens, seed=_SEED, exclusive=self._exclusive
            )
            self._known[key] = found.throughput
        return Prediction(key, self._known[key], self._method)

    def _solve(self, most_states: int) -> None:
        found = trcore.best_thresholds(
            *self._args, max_states=most_states, exclusive=self._exclusive
        )
        self._method: Method = "chain"
        thresholds, throughputs = found.candidates
        for key, throughput in zip(thresholds.tolist(), throughputs.tolist(), strict=True):
            self._known[tuple(key)] = throughput
        self.best, self.compared = self.of(found.thresholds), len(self._known)

    def _search(self, tokens: int, start: Sequence[int]) -> None:
        found = trcore.search_thresholds(
            *self._args, tokens=tokens, seed=_SEARCH_SEED, exclusive=self._exclusive, start=start
        )
        self._method = "simulation"
        both = (self.of(start), self.of(found.thresholds))
        self.best = max(both, key=lambda prediction: prediction.tokens_per_s)
        self.compared = len(found.candidates[0])
