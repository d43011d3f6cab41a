"""One model for everything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from rbalance.policies.model_first import ModelChoice

if TYPE_CHECKING:
    from rbalance.policies.batch import RequestBatch


@dataclass(frozen=True, slots=True)
class Passthrough:
    """`model`: its number."""

    uses_vectors: ClassVar[bool] = False
    model: int

    @property
    def fallback(self) -> int:
        """The model."""
        return self.model

    def models(self, batch: RequestBatch) -> ModelChoice:
        """The model, for every request."""
        return ModelChoice(np.full(len(batch), self.model, np.intp))
