"""Gain over share of the large model's tokens, its area, and how certain that is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Weights = NDArray[np.float64]
"""`[draws, prompts]`: how often each prompt is counted in each bootstrap draw."""


@dataclass(frozen=True)
class CurvePoint:
    """One setting of one router on all prompts.

    Arrays are `[prompts]`: tokens made, how many of them by the large model, the sum of their
    log-likelihoods under the large model (nats), how many are its argmax there, and the share of
    the output up to where it leaves the large model's own greedy text.
    """

    label: str
    tokens: NDArray[np.float64]
    large_tokens: NDArray[np.float64]
    log_likelihood: NDArray[np.float64]
    argmax_tokens: NDArray[np.float64]
    greedy_prefix: NDArray[np.float64]

    @property
    def share(self) -> float:
        """Share of all tokens that the large model made."""
        return float(self.large_tokens.sum() / self.tokens.sum())

    @property
    def mean_log_likelihood(self) -> float:
        """Nats a token."""
        return float(self.log_likelihood.sum() / self.tokens.sum())

    @property
    def argmax_share(self) -> float:
        """Share of tokens that the large model would have chosen after the same text."""
        return float(self.argmax_tokens.sum() / self.tokens.sum())


def area(
    points: Sequence[CurvePoint], small: CurvePoint, large: CurvePoint, weights: Weights
) -> Weights:
    """Area under gain (log-likelihood a token, over `small`'s) by share, from 0 to 1: `[draws]`.

    The ends are the small model alone (share 0, gain 0) and the large one alone (share 1).
    """

    def of(point: CurvePoint) -> tuple[Weights, Weights]:
        tokens = weights @ point.tokens
        return weights @ point.large_tokens / tokens, weights @ point.log_likelihood / tokens

    base = of(small)[1]
    curves = [of(point) for point in (small, *points, large)]
    shares = np.stack([share for share, _ in curves])
    gains = np.stack([value - base for _, value in curves])
    order = shares.argsort(axis=0, kind="stable")
    shares = np.take_along_axis(shares, order, axis=0)
    gains = np.take_along_axis(gains, order, axis=0)
    return np.asarray((np.diff(shares, axis=0) * (gains[1:] + gains[:-1]) / 2).sum(axis=0))


def bootstrap_weights(prompts: int, draws: int, seed: int = 0) -> Weights:
    """Prompts drawn with replacement; the first row counts each once (the measured value)."""
    drawn = np.random.default_rng(seed).multinomial(prompts, [1 / prompts] * prompts, size=draws)
    return np.vstack([np.ones(prompts), drawn]).astype(np.float64)
