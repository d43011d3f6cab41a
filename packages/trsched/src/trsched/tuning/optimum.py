"""The thresholds with the highest predicted throughput, for one situation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import trcore

CHAIN_REQUESTS = 16
"""Up to so many requests of two models the Markov chain is solved; beyond, it is simulated."""

_QUANTA = range(32, 65)
"""The longest step is so many quanta of the chain's time: enough to compare thresholds."""

_LARGEST_ERROR = 0.03
"""Of a duration in these quanta; where one is worse (100 ms beside 1), there is no chain either."""

_HARDLY_MIXING = 0.05
"""Below this the chain of models with devices of their own takes up to 200 ms for each threshold,
many seconds in all, in which a group could not close: it is simulated instead."""

_TOKENS, _MOST_TOKENS = 4000, 40_000
_ENOUGH_MIXING = 0.2  # for _TOKENS
_SEED = 1


@dataclass(frozen=True, slots=True)
class Situation:
    """What throughput depends on: P, C `[models, models]`, L_i `[models][active]` in seconds, N.

    shared_device: whether the models take turns on one device.
    """

    routing: NDArray[np.float64]
    commits: NDArray[np.float64]
    step_seconds: Sequence[NDArray[np.float64]]
    active: int
    shared_device: bool

    def alone(self) -> tuple[float, ...]:
        """Tokens a second of each model if it served all requests by itself."""
        return tuple(self.active / float(curve[self.active - 1]) for curve in self.step_seconds)


@dataclass(frozen=True, slots=True)
class Optimum:
    """The best thresholds, their predicted tokens a second, and those of the present ones."""

    thresholds: tuple[int, ...]
    predicted: float
    present: float


def optimum(situation: Situation, present: Sequence[int]) -> Optimum:
    """Solve the chain of TokenRouter (arXiv 2610.12242, appendix on its model) or simulate it.

    present: thresholds that `situation.active` requests cannot deadlock with.
    """
    model = (
        situation.routing,
        situation.commits,
        situation.step_seconds,
        situation.active,
    )
    shared, mixing = situation.shared_device, _mixing(situation.routing)
    mixes = shared or mixing > _HARDLY_MIXING
    quantum, error = fitting_quantum(np.concatenate(situation.step_seconds))
    fits = situation.active <= CHAIN_REQUESTS and error <= _LARGEST_ERROR
    if len(present) == 2 and fits and mixes:
        best = trcore.best_thresholds(*model, quantum=quantum, exclusive=shared)
        now = trcore.solve(*model, present, quantum=quantum, exclusive=shared)
        return Optimum(best.thresholds, best.throughput, now.throughput)
    tokens = int(_TOKENS * _ENOUGH_MIXING / np.clip(mixing, 1e-9, _ENOUGH_MIXING))
    tokens = min(tokens, _MOST_TOKENS)  # more where requests stay long where they are
    found = trcore.search_thresholds(
        *model, tokens=tokens, seed=_SEED, exclusive=shared, start=present
    )
    simulated = trcore.simulate(*model, present, tokens=tokens, seed=_SEED, exclusive=shared)
    return Optimum(found.thresholds, found.throughput, simulated.throughput)


def _mixing(routing: NDArray[np.float64]) -> float:
    """How much of where a request was is forgotten with each of its steps; p + q of two models."""
    return float(1.0 - np.sort(np.linalg.eigvals(routing).real)[-2])


def fitting_quantum(seconds: NDArray[np.float64]) -> tuple[float, float]:
    """The unit of time in which durations, rounded, are least wrong, and how wrong the worst is.

    In seconds, and as a share of the duration.
    """
    quanta = np.max(seconds) / np.array(_QUANTA)
    rounded = np.maximum(1.0, np.round(seconds / quanta[:, np.newaxis])) * quanta[:, np.newaxis]
    errors = np.max(np.abs(rounded / seconds - 1.0), axis=1)
    best = int(np.argmin(errors))
    return float(quanta[best]), float(errors[best])
