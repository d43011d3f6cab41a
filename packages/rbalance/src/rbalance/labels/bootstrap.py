"""How far a mean over prompts may be off, by resampling the prompts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

RESAMPLES = 2000
_CHUNK = 100


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with the 2.5 % and 97.5 % quantiles of its bootstrap distribution."""

    mean: float
    low: float
    high: float


def mean_interval(
    values: NDArray[np.floating | np.bool_], resamples: int = RESAMPLES, seed: int = 0
) -> Interval:
    """The mean of values [R], one a prompt, and its 95 % percentile interval.

    For the difference of two choices give each prompt's difference: then it is paired.
    """
    generator = np.random.default_rng(seed)
    found = values.astype(np.float64)
    means = np.empty(resamples)
    for start in range(0, resamples, _CHUNK):
        stop = min(start + _CHUNK, resamples)
        rows = generator.integers(len(found), size=(stop - start, len(found)))
        means[start:stop] = found[rows].mean(axis=1)
    low, high = np.quantile(means, (0.025, 0.975))
    return Interval(float(found.mean()), float(low), float(high))
