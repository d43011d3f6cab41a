"""What baselines are trained on: embedded prompts, models' scores, and what their answers cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Labelled:
    """N prompts, M models in the cluster's order.

    vectors: float32 [N, D] of length 1.
    quality: float32 [N, M], 0 to 1.
    cost: float64 [N, M], USD.
    category: the source's class of each prompt; empty strings where it has none.
    """

    models: tuple[str, ...]
    vectors: NDArray[np.float32]
    quality: NDArray[np.float32]
    cost: NDArray[np.float64]
    category: tuple[str, ...]

    @property
    def mean_cost(self) -> NDArray[np.float64]:
        """float64 [M], USD a request."""
        return np.asarray(self.cost.mean(axis=0))

    @property
    def cheapest_first(self) -> NDArray[np.intp]:
        """Intp [M]: the models by mean cost."""
        return np.argsort(self.mean_cost, kind="stable")

    @property
    def strongest(self) -> int:
        """The model with the best mean score."""
        return int(np.nanmean(self.quality, axis=0).argmax())
