"""TPOT heads: one XGBoost regressor for each tier, a model on a kind of GPU.

The article's estimator (arXiv 2606.17949), with the settings of its artefact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rbalance.errors import MissingExtraError, TrainingError
from rbalance.tpot.features import feature_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from numpy.typing import NDArray
    from xgboost import Booster

    from rbalance.tpot.record import TpotRecord

ROUNDS = 100
PARAMETERS: dict[str, Any] = {
    "objective": "reg:squarederror",
    "tree_method": "hist",
    "max_depth": 6,
    "learning_rate": 0.1,
    "subsample": 0.8,
    "colsample_bytree": 0.8,
    "min_child_weight": 5,
    "seed": 42,
    "nthread": 1,  # a few dozen rows at a time: waking threads costs more than they save
}
MIN_ROWS = 50
_JUDGED = 5  # one row in so many is kept from training, to judge by


@dataclass(frozen=True, slots=True)
class HeadQuality:
    """A head on rows it was not trained on, beside the constant it replaces.

    Both errors are mean absolute errors in seconds; static_s is the constant: the mean.
    """

    rows: int
    error_s: float
    static_error_s: float
    static_s: float


@dataclass(frozen=True, slots=True, eq=False)
class TpotHeads:
    """Heads by tier, with each tier's mean TPOT in seconds, and how good each is."""

    boosters: Mapping[str, Booster]
    quality: Mapping[str, HeadQuality]


def fit_heads(
    records: Iterable[TpotRecord], fitted: Callable[[str], None] = lambda tier: None
) -> TpotHeads:
    """Train a head for each tier that occurs.

    Every fifth row of a tier, in the order given, is held back; the head is judged by those.

    Raises TrainingError: no row, or fewer than 50 of a tier. MissingExtraError without XGBoost.
    """
    by_tier: dict[str, list[TpotRecord]] = {}
    for record in records:
        by_tier.setdefault(record.tier, []).append(record)
    if not by_tier:
        raise TrainingError("no measured request to train TPOT heads on")
    boosters, quality = {}, {}
    for tier, rows in sorted(by_tier.items()):
        if len(rows) < MIN_ROWS:
            raise TrainingError(f"tier {tier!r} has {len(rows)} rows, fewer than {MIN_ROWS}")
        boosters[tier], quality[tier] = _fit(rows)
        fitted(tier)
    return TpotHeads(boosters, quality)


def xgboost_library() -> Any:
    """The module. Raises MissingExtraError."""
    try:
        import xgboost
    except ImportError as missing:
        raise MissingExtraError("xgboost-cpu", "predict") from missing
    return xgboost


def _fit(records: list[TpotRecord]) -> tuple[Booster, HeadQuality]:
    xgboost = xgboost_library()
    rows, measured = _rows(records)
    judged = np.arange(len(rows)) % _JUDGED == _JUDGED - 1
    training = xgboost.DMatrix(rows[~judged], label=measured[~judged])
    static_s = float(measured[~judged].mean())
    booster = xgboost.train({**PARAMETERS, "base_score": static_s}, training, ROUNDS)
    error = np.abs(booster.inplace_predict(rows[judged]) - measured[judged]).mean()
    static = np.abs(static_s - measured[judged]).mean()
    return booster, HeadQuality(len(rows), float(error), float(static), static_s)


def _rows(records: list[TpotRecord]) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    state = np.stack([record.state_row() for record in records])
    prompt = np.array([record.prompt for record in records], np.float32)
    predicted = np.array([record.predicted for record in records], np.float32)
    measured = np.array([record.tpot_s for record in records], np.float64)
    return feature_rows(state, prompt, predicted), measured
