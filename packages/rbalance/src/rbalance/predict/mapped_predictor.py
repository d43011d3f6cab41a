"""The models of a pool in terms of those that a predictor knows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from rbalance.errors import ConfigError
from rbalance.predict.fixed_predictor import checked_expectation
from rbalance.predict.predictions import Predictions, Prior

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from rbalance.predict.predictions import Predictor

PredictAs: TypeAlias = str | Mapping[str, float] | tuple[float, float]
"""What to expect of a model of the pool: what is predicted for a model that the predictor knows; a
blend of several by their shares of 1, as of a pair that write one answer together, token by token;
or quality and length in tokens, the same for every prompt."""

_SUM_TOLERANCE = 1e-6


class MappedPredictor:
    """The Predictor of a pool's models, in the order of `columns`.

    Quality and length of a blend are blended linearly, as is its prior.
    """

    def __init__(self, predictor: Predictor, columns: Mapping[str, PredictAs]) -> None:
        """columns: by the pool's names of its models.

        Raises ConfigError naming `models.NAME.predict_as`: a model that the predictor does not
        know, shares that are negative or do not sum to 1, numbers that cannot be.
        """
        self._predictor = predictor
        self.instant = predictor.instant
        known = predictor.prior.models
        blends = [_blend(name, given, known) for name, given in columns.items()]
        self._shares = np.array([shares for shares, _, _ in blends], np.float32).T
        self._quality, self._length = (
            np.array([blend[at] for blend in blends], np.float32) for at in (1, 2)
        )
        prior = self.mapped(predictor.prior.predictions(1))
        self.prior = Prior(tuple(columns), prior.quality[0], prior.length[0])

    def predict(self, prompts: Sequence[str]) -> Predictions:
        """One row for each prompt."""
        return self.mapped(self._predictor.predict(prompts))

    def mapped(self, known: Predictions) -> Predictions:
        """The pool's predictions from the predictor's: `predict` for who has those already."""
        unknown: NDArray[np.bool_] = known.from_prior @ (self._shares > 0)
        return Predictions(
            quality=np.minimum(known.quality @ self._shares + self._quality, np.float32(1)),
            length=known.length @ self._shares + self._length,
            from_prior=unknown | (self._length > 0),
        )


def _blend(
    name: str, given: PredictAs, known: Sequence[str]
) -> tuple[NDArray[np.float32], float, float]:
    """Shares of the known models, float32 [M], and what is added to quality and to length."""
    field = f"models.{name}.predict_as"
    shares = np.zeros(len(known), np.float32)
    if isinstance(given, tuple):
        checked_expectation(name, *given)
        return shares, *given
    parts = {given: 1.0} if isinstance(given, str) else given
    for part, share in parts.items():
        if part not in known:
            raise ConfigError(field, f"{part!r} is none of {', '.join(known)}")
        if not share >= 0:
            raise ConfigError(field, f"the share of {part!r} must be 0 or more, not {share}")
        shares[known.index(part)] = share
    if abs((total := math.fsum(parts.values())) - 1) > _SUM_TOLERANCE:
        raise ConfigError(field, f"the shares sum to {total:.6g}, not 1")
    return shares, 0.0, 0.0
