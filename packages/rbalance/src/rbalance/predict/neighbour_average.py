"""Neighbours' labels averaged: the nearer the more, with a prior for what they don't say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

NEAR = 0.1
"""The distance (1 - cosine) at which a neighbour counts half as much as the same prompt again."""


def nearness(similarity: NDArray[np.float32]) -> NDArray[np.float32]:
    """Weights from 0 to 1 of neighbours with these cosine similarities: 1 for the same prompt."""
    distance = np.maximum(np.float32(1.0) - similarity, np.float32(0.0))
    return np.asarray(NEAR / (distance + NEAR), np.float32)


def neighbour_average(
    weights: NDArray[np.float32],
    labels: NDArray[np.float32],
    prior: NDArray[np.float32],
    prior_weight: float,
) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """The mean over the neighbours that have a label and, with its own weight, the prior.

    weights: float32 [R, k], finite, 0 to leave one out.
    labels: float32 [R, k, C], NaN for none.
    prior: float32 [C].

    Returns the mean float32 [R, C] and bool [R, C], where no neighbour had a
    label and the prior stands alone.
    """
    known = np.isfinite(labels)
    total = np.einsum("rk,rkc->rc", weights, np.where(known, labels, np.float32(0.0)))
    weight = np.einsum("rk,rkc->rc", weights, known.astype(np.float32))
    unlabelled = np.asarray(weight == 0.0)
    share = np.where(unlabelled, 1.0, prior_weight)
    mean = (total + share * prior) / (weight + share)
    return np.asarray(mean, np.float32), unlabelled
