"""From labelled prompts to a pool for simulations: hold some out, fit on the rest, predict once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rbalance.errors import TrainingError
from rbalance.labels.training_set import CHARS_PER_TOKEN, TrainingSet, held_out
from rbalance.predict.knn import KnnPredictor, fit_knn
from rbalance.predict.predictions import Predictions
from rbalance.simulator.prompt_pool import PromptPool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from rbalance.labels.records import LabelledPrompt
    from rbalance.predict.embedder import Embedder

_BATCH = 64


class KnownVectors:
    """An Embedder that has embedded all its prompts before."""

    def __init__(
        self, embedder: Embedder, prompts: Sequence[str], advanced: Callable[[int], None]
    ) -> None:
        self.name = embedder.name
        self.fingerprint = embedder.fingerprint
        self.dimension = embedder.dimension
        self._row = {prompt: row for row, prompt in enumerate(prompts)}
        self._vectors = np.empty((len(prompts), self.dimension), np.float32)
        # prompts of like length together: little padding
        order = sorted(range(len(prompts)), key=lambda row: len(prompts[row]))
        for start in range(0, len(order), _BATCH):
            rows = order[start : start + _BATCH]
            self._vectors[rows] = embedder.embed([prompts[row] for row in rows])
            advanced(len(rows))

    def embed(self, prompts: Sequence[str]) -> NDArray[np.float32]:
        """Look them up. Raises KeyError for a prompt that was not given before."""
        return self._vectors[[self._row[prompt] for prompt in prompts]]


def make_pool(
    records: Iterable[LabelledPrompt],
    embedder: Embedder,
    models: Sequence[str],
    share: float = 0.2,
    seed: int = 0,
    chars_per_token: float = CHARS_PER_TOKEN,
    k: int | None = None,
    advanced: Callable[[int], None] = lambda prompts: None,
) -> PromptPool:
    """The pool of the prompts for which every one of `models` has a score and a length.

    share: to hold out, chosen by the prompts' text and `seed`.
    k: neighbours to average; None for the number with the least error.
    advanced: called with the number of prompts embedded since the last call; equal prompts are
        embedded once.

    Raises TrainingError: nothing is left on one of the two sides.
    """
    kept = [
        record
        for record in records
        if all(model in record.scores and model in record.out_chars for model in models)
    ]
    data = TrainingSet.from_records(kept, models, chars_per_token)
    known = KnownVectors(embedder, list(dict.fromkeys(data.prompts)), advanced)
    held = held_out(data.prompts, share, seed)
    if not held.any() or held.all():
        raise TrainingError(f"{len(held)} labelled prompts are too few to hold {share:g} out")
    training, test = data.take(~held), data.take(held)
    fit = fit_knn(training, known, k)
    vectors = known.embed(test.prompts)
    prompt = np.array([max(1, round(len(text) / chars_per_token)) for text in data.prompts])
    category = [record.category or record.source for record in kept]
    return PromptPool(
        models=data.models,
        prompt=prompt[held].astype(np.int32),
        length=test.length,
        quality=test.quality,
        predictions=_predicted(KnnPredictor(fit, known), vectors),
        prior=fit.prior,
        vectors=vectors,
        train_prompt=prompt[~held].astype(np.int32),
        train_length=training.length,
        train_quality=training.quality,
        train_vectors=known.embed(training.prompts),
        train_category=tuple(name for name, out in zip(category, held, strict=True) if not out),
    )


def _predicted(predictor: KnnPredictor, vectors: NDArray[np.float32]) -> Predictions:
    parts = [
        predictor.predict_vectors(vectors[start : start + _BATCH])
        for start in range(0, len(vectors), _BATCH)
    ]
    return Predictions(
        np.concatenate([part.quality for part in parts]),
        np.concatenate([part.length for part in parts]),
        np.concatenate([part.from_prior for part in parts]),
    )
