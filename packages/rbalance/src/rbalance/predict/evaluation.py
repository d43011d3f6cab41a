"""How good predictions are, on prompts that they were not fitted to."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from rbalance.errors import ConfigError, TrainingError
from rbalance.labels.bootstrap import RESAMPLES, Interval, mean_interval
from rbalance.labels.training_set import CHARS_PER_TOKEN
from rbalance.predict.calibration import QualityCalibration, calibration

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from rbalance.labels.training_set import TrainingSet
    from rbalance.predict.predictions import Predictions, Prior

Price = tuple[float, float]
"""USD per million tokens of the prompt, and per million tokens of the answer."""


@dataclass(frozen=True, slots=True)
class SelectionQuality:
    """A way to choose a model for each prompt, by the choices' true scores.

    regret: what the best model of each prompt would have added.
    gain: over always taking the model that was best in training; both paired by prompt.
    usd: mean cost of a request by the answers' true lengths; None without prices or lengths.
    """

    quality: Interval
    regret: Interval
    gain: Interval
    usd: float | None


@dataclass(frozen=True, slots=True)
class LengthError:
    """Mean absolute error of predicted lengths, and the prior's, in tokens, over known lengths."""

    pairs: int
    predicted: float
    prior: float


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The figures over `prompts` prompts that every model has a score for.

    accuracy: how often the model of the highest predicted quality is among the truly best.
    choices: by name; `routed` takes the highest predicted quality, `oracle` the highest score.
    """

    prompts: int
    accuracy: Interval
    choices: Mapping[str, SelectionQuality]
    calibration: QualityCalibration
    length: LengthError | None


def evaluate(
    data: TrainingSet,
    predictions: Predictions,
    prior: Prior,
    prices: Mapping[str, Price] | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Evaluation:
    """Judge `predictions` for data.prompts by their labels; columns are prior.models everywhere.

    Calibration and length error are over every label there is, all else over the prompts that every
    model has a score for.

    prices: with them costs are given, and the cheapest model's.

    Raises TrainingError if no prompt has a score of every model, ConfigError for prices of other
    models.
    """
    complete = ~np.isnan(data.quality).any(axis=1)
    if not complete.any():
        raise TrainingError("no prompt to evaluate has a score of every model")
    interval = partial(mean_interval, resamples=resamples, seed=seed)
    scored = data.quality[complete].astype(np.float64)
    cost = _cost(data, prices)[complete] if prices else None
    best = int(prior.quality.argmax())
    chosen = {
        "routed": predictions.quality[complete].argmax(axis=1),
        "oracle": scored.argmax(axis=1),
        f"always {prior.models[best]}": np.full(len(scored), best),
    }
    if cost is not None and not np.isnan(cost).all(axis=0).any():
        cheapest = int(np.nanmean(cost, axis=0).argmin())
        chosen[f"always {prior.models[cheapest]}"] = np.full(len(scored), cheapest)
    of_best, of_oracle = scored[:, best], scored.max(axis=1)
    choices = {}
    for name, models in chosen.items():
        taken = _taken(scored, models)
        choices[name] = SelectionQuality(
            quality=interval(taken),
            regret=interval(of_oracle - taken),
            gain=interval(taken - of_best),
            usd=None if cost is None else _mean(_taken(cost, models)),
        )
    return Evaluation(
        prompts=len(scored),
        accuracy=interval(_taken(scored, chosen["routed"]) == of_oracle),
        choices=choices,
        calibration=calibration(predictions.quality, data.quality, prior.quality),
        length=_length_error(data.length, predictions.length, prior.length),
    )


def _taken(values: NDArray[np.float64], models: NDArray[np.intp]) -> NDArray[np.float64]:
    return np.take_along_axis(values, models[:, None], axis=1)[:, 0]


def _cost(data: TrainingSet, prices: Mapping[str, Price]) -> NDArray[np.float64]:
    """USD [N, M], NaN where the answer's length is unknown."""
    if prices.keys() != set(data.models):
        raise ConfigError(
            "prices", f"there must be one for each of {', '.join(data.models)} and no other"
        )
    prompt = np.array([len(prompt) for prompt in data.prompts])[:, None] / CHARS_PER_TOKEN
    read, written = np.array([prices[name] for name in data.models]).T
    return np.asarray((prompt * read + data.length * written) / 1e6)


def _mean(values: NDArray[np.float64]) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else None


def _length_error(
    true: NDArray[np.float32], predicted: NDArray[np.float32], prior: NDArray[np.float32]
) -> LengthError | None:
    known = ~np.isnan(true)
    if not known.any():
        return None
    constant = np.broadcast_to(prior, true.shape)
    return LengthError(
        pairs=int(known.sum()),
        predicted=float(np.abs(predicted[known] - true[known]).mean()),
        prior=float(np.abs(constant[known] - true[known]).mean()),
    )
