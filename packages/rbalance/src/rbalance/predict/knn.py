"""Quality and length of each model's answer, from the nearest labelled prompts.

The article's estimator (arXiv 2606.17949): the k nearest training prompts, weighted by distance.
Ours adds a prior to the average, see rbalance.predict.leave_one_out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from rbalance.errors import ConfigError, TrainingError
from rbalance.labels.training_set import prompt_digests
from rbalance.predict.leave_one_out import NEIGHBOURS, best_neighbourhood
from rbalance.predict.nearest import IndexKind, NearestPrompts
from rbalance.predict.neighbour_average import nearness, neighbour_average
from rbalance.predict.predictions import Predictions, Prior

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from rbalance.labels.training_set import TrainingSet
    from rbalance.predict.embedder import Embedder

_FITTING_BATCH = 64


@dataclass(frozen=True, slots=True, eq=False)
class KnnFit:
    """What a predictor knows: N embedded prompts with the labels of M models.

    vectors: float16 [N, D] of length 1.
    quality, length: float32 [N, M], NaN for no label.
    digests: uint64 [N] of the prompts' texts, so that an evaluation can leave out what was learned.
    k: neighbours to average over.
    prior_weight: what the prior counts beside them, where a neighbour counts 1 if it is the same
        prompt and less the farther it is.
    """

    prior: Prior
    vectors: NDArray[np.float16]
    quality: NDArray[np.float32]
    length: NDArray[np.float32]
    digests: NDArray[np.uint64]
    k: int
    prior_weight: float
    embedder: str
    fingerprint: str


def fit_knn(
    data: TrainingSet,
    embedder: Embedder,
    k: int | None = None,
    default_length: float | None = None,
    advanced: Callable[[int], None] = lambda prompts: None,
) -> KnnFit:
    """Embed every prompt.

    k: None for the number with the least error on these prompts, as `leave_one_out` finds.
    default_length: tokens to expect of models for which no answer's length is known.
    advanced: called with the number of prompts embedded since the last call.

    Raises TrainingError: a model without any length and no default_length. ConfigError: k below 1.
    """
    if k is not None and k < 1:
        raise ConfigError("k", f"must be at least 1, not {k}")
    prior = _prior(data, default_length)
    vectors = np.empty((len(data.prompts), embedder.dimension), np.float16)
    # batches of prompts of like length: little padding
    order = sorted(range(len(data.prompts)), key=lambda row: len(data.prompts[row]))
    for rows in _chunks(order, _FITTING_BATCH):
        vectors[rows] = embedder.embed([data.prompts[row] for row in rows])
        advanced(len(rows))
    if not np.isfinite(vectors).all():
        raise TrainingError(f"embedder {embedder.name} gave a vector that is not finite")
    neighbours = NEIGHBOURS if k is None else (k,)
    k, prior_weight = best_neighbourhood(
        vectors.astype(np.float32), data.quality, prior.quality, neighbours
    )
    return KnnFit(
        prior=prior,
        vectors=vectors,
        quality=data.quality,
        length=data.length,
        digests=prompt_digests(data.prompts),
        k=k,
        prior_weight=prior_weight,
        embedder=embedder.name,
        fingerprint=embedder.fingerprint,
    )


class KnnPredictor:
    """The Predictor: embed a batch, look up its neighbours, average their labels.

    A model's label is averaged over those of the k neighbours that have one, weighted by nearness,
    and its prior; with none among them the prior stands. One call at a time; the GIL is free while
    it computes.
    """

    instant: ClassVar[bool] = False

    def __init__(self, fit: KnnFit, embedder: Embedder, index: IndexKind = "exact") -> None:
        """Raises ConfigError if `embedder` is not the one that `fit` was made with."""
        if embedder.fingerprint != fit.fingerprint:
            raise ConfigError(
                "embedder",
                f"the predictor was fitted with {fit.embedder} ({fit.fingerprint}), "
                f"not with {embedder.name} ({embedder.fingerprint})",
            )
        self.prior = fit.prior
        self._embedder = embedder
        self._nearest = NearestPrompts(fit.vectors.astype(np.float32), index)
        self._k = fit.k
        self._prior_weight = fit.prior_weight
        self._labels = np.concatenate([fit.quality, fit.length], axis=1)
        self._prior_labels = np.concatenate([fit.prior.quality, fit.prior.length])

    def predict(self, prompts: Sequence[str]) -> Predictions:
        """One row for each prompt."""
        return self.predict_vectors(self._embedder.embed(prompts))

    def predict_vectors(self, vectors: NDArray[np.float32]) -> Predictions:
        """The same for prompts embedded before: float32 [R, D]; NaN in a row gives the prior."""
        usable = np.asarray(np.isfinite(vectors).all(axis=1))
        if not usable.all():
            vectors = np.where(usable[:, None], vectors, np.float32(0))
        similarity, rows = self._nearest.search(vectors, self._k)
        weights = nearness(similarity)
        weights[(rows < 0) | ~usable[:, None]] = 0.0
        mean, unlabelled = neighbour_average(
            weights, self._labels[rows], self._prior_labels, self._prior_weight
        )
        models = len(self.prior.models)
        return Predictions(
            quality=np.clip(mean[:, :models], 0.0, 1.0),
            length=np.maximum(mean[:, models:], 1.0),
            from_prior=unlabelled[:, :models],
        )


def _prior(data: TrainingSet, default_length: float | None) -> Prior:
    if default_length is not None and not 1.0 <= default_length < np.inf:
        raise ConfigError("default_length", f"must be at least 1 token, not {default_length}")
    unknown = np.isnan(data.length).all(axis=0)
    if unknown.any() and default_length is None:
        raise TrainingError(
            f"no answer of model {data.models[int(unknown.argmax())]!r} has a known length; "
            f"say what to expect with default_length"
        )
    sums = np.nansum(data.length, axis=0, dtype=np.float64)
    counts = np.maximum((~np.isnan(data.length)).sum(axis=0), 1)
    length = np.where(unknown, default_length or 0.0, sums / counts)
    return Prior(
        models=data.models,
        quality=np.asarray(np.nanmean(data.quality, axis=0, dtype=np.float64), np.float32),
        length=np.asarray(np.maximum(length, 1.0), np.float32),
    )


def _chunks(rows: list[int], size: int) -> Iterator[list[int]]:
    for start in range(0, len(rows), size):
        yield rows[start : start + size]
