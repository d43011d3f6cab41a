"""A cascade in the manner of Tabi (Wang et al., EuroSys 2023): ask the cheap model first and a
better one when its answer isn't to be trusted.

Tabi calibrates the small model's own confidence. Answers are not seen here, so the confidence is
the predicted quality of the model asked; the time of every model asked is spent all the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from rbalance.policies.model_first import ModelChoice

if TYPE_CHECKING:
    from rbalance.policies.batch import RequestBatch


@dataclass(frozen=True, slots=True)
class Tabi:
    """The router.

    cascade: models, cheapest first.
    trust: the least predicted quality that ends it.
    """

    uses_vectors: ClassVar[bool] = False
    cascade: tuple[int, ...]
    trust: float

    @property
    def fallback(self) -> int:
        """The strongest model."""
        return self.cascade[-1]

    def models(self, batch: RequestBatch) -> ModelChoice:
        """The first of the cascade, then the next ones up to one that is trusted."""
        trusted = batch.predictions.quality[:, list(self.cascade)] >= self.trust
        trusted[:, -1] = True
        asked = trusted.argmax(axis=1)  # the first one that is trusted ends the cascade
        then = {row: self.cascade[1 : last + 1] for row, last in enumerate(asked) if last}
        return ModelChoice(np.full(len(batch), self.cascade[0], np.intp), then=then)
