"""Whether predicted qualities mean what they say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

BINS = 10


@dataclass(frozen=True, slots=True)
class Bin:
    """Pairs whose predicted quality lies in one tenth of 0 to 1, and the means over them."""

    pairs: int
    predicted: float
    scored: float


@dataclass(frozen=True, slots=True)
class QualityCalibration:
    """Over all pairs of a prompt and a model that has a score for it.

    ece: expected calibration error, the mean over pairs of |predicted - scored| of their bin.
    squared_error: mean of (predicted - scored)², and the prior's, which prompts have to beat.
    bins: those that hold a pair, lowest first.
    """

    pairs: int
    ece: float
    squared_error: float
    prior_squared_error: float
    bins: tuple[Bin, ...]


def calibration(
    predicted: NDArray[np.floating], scored: NDArray[np.floating], prior: NDArray[np.floating]
) -> QualityCalibration:
    """Judge predicted [R, M] and prior [M] by scored [R, M], NaN for no score."""
    known = ~np.isnan(scored)
    said = predicted[known].astype(np.float64)
    true = scored[known].astype(np.float64)
    constant = np.broadcast_to(prior, scored.shape)[known]
    tenth = np.minimum((said * BINS).astype(np.intp), BINS - 1)
    bins = tuple(
        Bin(int(inside.sum()), float(said[inside].mean()), float(true[inside].mean()))
        for inside in (tenth == number for number in range(BINS))
        if inside.any()
    )
    return QualityCalibration(
        pairs=len(said),
        ece=sum(each.pairs * abs(each.predicted - each.scored) for each in bins) / len(said),
        squared_error=float(np.square(said - true).mean()),
        prior_squared_error=float(np.square(constant - true).mean()),
        bins=bins,
    )
