"""In the manner of vLLM Semantic Router: an outside service names a prompt's category, and each
category has its model. A service that fails or takes too long leaves the default model (fail-open).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np

from rbalance.policies.model_first import ModelChoice

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from rbalance.labels.embedded_labels import Labelled
    from rbalance.policies.batch import RequestBatch

TIMEOUT_S = 2.0


class Classifier(Protocol):
    """Names categories."""

    @property
    def uses_vectors(self) -> bool:
        """`RequestBatch.vectors` must be there."""
        ...

    def categories(self, batch: RequestBatch) -> Sequence[str | None]:
        """One for each request; None where the service failed or was too slow."""
        ...


class SemanticRouter:
    """`model_of`: by category; what is not in it, and failures, go to `default`.

    failed_open: how many requests the classifier left without a category.
    """

    def __init__(self, classifier: Classifier, model_of: Mapping[str, int], default: int) -> None:
        self._classifier = classifier
        self._model_of = model_of
        self._default = default
        self.uses_vectors = classifier.uses_vectors
        self.failed_open = 0

    @property
    def fallback(self) -> int:
        """The default model."""
        return self._default

    def models(self, batch: RequestBatch) -> ModelChoice:
        """The model of each prompt's category; the default where there is none."""
        found = self._classifier.categories(batch)
        self.failed_open += sum(category is None for category in found)
        chosen = [self._model_of.get(each or "", self._default) for each in found]
        return ModelChoice(np.array(chosen, np.intp))


@dataclass(frozen=True, slots=True, eq=False)
class NearestCategory:
    """A classifier in process: the category whose mean vector is nearest.

    centres: [C, D].
    """

    uses_vectors: ClassVar[bool] = True
    names: tuple[str, ...]
    centres: NDArray[np.float64]

    def categories(self, batch: RequestBatch) -> Sequence[str | None]:
        """The nearest category of each prompt."""
        assert batch.vectors is not None
        return [self.names[at] for at in (batch.vectors @ self.centres.T).argmax(axis=1)]


def fit_semantic_router(data: Labelled, tolerance: float = 0.05) -> SemanticRouter:
    """Categories are the labelled prompts' own; the cheapest model within `tolerance` of a
    category's best mean score answers it. The default is the model that is best over all.
    """
    category = np.array(data.category)
    names = tuple(str(name) for name in np.unique(category))
    centres = np.array([data.vectors[category == name].mean(axis=0) for name in names])
    centres /= np.maximum(np.linalg.norm(centres, axis=1, keepdims=True), 1e-12)
    model_of = {}
    for name in names:
        score = np.nanmean(data.quality[category == name], axis=0)
        good = data.cheapest_first[score[data.cheapest_first] >= score.max() - tolerance]
        model_of[name] = int(good[0])
    classifier = NearestCategory(names, centres.astype(np.float64))
    return SemanticRouter(classifier, model_of, data.strongest)
