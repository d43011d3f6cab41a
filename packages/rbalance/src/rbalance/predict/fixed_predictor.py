"""The Predictor of a pool without labelled prompts: the same of every prompt, from settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from rbalance.errors import ConfigError
from rbalance.predict.predictions import Predictions, Prior

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class FixedPredictor:
    """Knows each model's mean quality (0 to 1) and answer length (tokens, at least 1)."""

    instant: ClassVar[bool] = True

    def __init__(self, models: Mapping[str, tuple[float, float]]) -> None:
        """models: quality and length by name, in the order of the columns.

        Raises ConfigError naming `models.NAME.predict_as`: numbers that cannot be.
        """
        for name, (quality, length) in models.items():
            checked_expectation(name, quality, length)
        self.prior = Prior(
            tuple(models),
            np.array([quality for quality, _ in models.values()], np.float32),
            np.array([length for _, length in models.values()], np.float32),
        )

    def predict(self, prompts: Sequence[str]) -> Predictions:
        """One row for each prompt: the prior."""
        return self.prior.predictions(len(prompts))


def checked_expectation(model: str, quality: float, length: float) -> None:
    """Raises ConfigError naming `models.NAME.predict_as`: numbers that cannot be."""
    if not 0 <= quality <= 1:
        raise ConfigError(
            f"models.{model}.predict_as", f"quality must be from 0 to 1, not {quality}"
        )
    if not 1 <= length < np.inf:
        raise ConfigError(
            f"models.{model}.predict_as", f"length must be 1 token or more, not {length}"
        )
