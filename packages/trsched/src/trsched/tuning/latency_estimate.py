"""L_i(b) of delayed batching's model, estimated from the turns of one subserver."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

WINDOW = 50.0
"""Turns with one batch size over which the old ones lose their weight (to 1/e)."""


class LatencyEstimate:
    """A line a + c·b through the exponentially weighted mean seconds of a turn by batch size.

    Neither coefficient is negative; c is 0 while only one size has been seen.
    """

    def __init__(self, largest_batch: int) -> None:
        self._weights = np.zeros(largest_batch + 1)
        self._sums = np.zeros(largest_batch + 1)

    def add(self, batches: NDArray[np.float64], seconds: NDArray[np.float64]) -> None:
        """New turns by batch size, as `StepCounters` counts them."""
        kept = np.exp(-batches / WINDOW)
        fading = np.divide(WINDOW * (1.0 - kept), batches, where=batches > 0, out=0.0 * batches)
        self._weights = self._weights * kept + batches * fading
        self._sums = self._sums * kept + seconds * fading

    @property
    def known(self) -> bool:
        """Whether there was any turn, with its seconds (a counter may be read between the two)."""
        return bool(self._sums.any())

    def curve(self, largest: int) -> NDArray[np.float64]:
        """Seconds for batches of 1 to `largest`: `[largest]`. Needs `known`."""
        sizes = np.flatnonzero(self._weights).astype(np.float64)
        weights = self._weights[self._weights > 0]
        means = self._sums[self._weights > 0] / weights
        size, mean = np.average(sizes, weights=weights), np.average(means, weights=weights)
        spread = float(np.sum(weights * (sizes - size) ** 2))
        together = float(np.sum(weights * (sizes - size) * (means - mean)))
        slope = np.clip(together / spread if spread else 0.0, 0.0, mean / size)
        return np.asarray(mean + slope * (np.arange(1, largest + 1) - size))
