"""What happened on each instance lately, as counts that fade."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

KINDS = ("dispatched", "finished", "read", "written", "tpot_s", "tpot_n", "ttft_s", "ttft_n")
_COLUMN = {kind: column for column, kind in enumerate(KINDS)}


class Activity:
    """Sums over the last `window_s` seconds or so: each amount fades by e in that time."""

    def __init__(self, capacity: int, window_s: float = 1.0) -> None:
        self._window_s = window_s
        self._sums = np.zeros((capacity, len(KINDS)))
        self._at = np.zeros(capacity)

    def add(self, instances: Sequence[int], now: float, **amounts: float) -> None:
        """Amounts by kind, to each of some instances: requests, tokens, seconds."""
        for instance in instances:
            sums = self._sums[instance]
            passed = now - self._at[instance]
            if passed > 0:
                sums *= math.exp(-passed / self._window_s)
                self._at[instance] = now
            for kind, amount in amounts.items():
                sums[_COLUMN[kind]] += amount

    def copy(self, instance: int, to: int) -> None:
        """What happened on one happened on another, which shares its server."""
        self._sums[to] = self._sums[instance]
        self._at[to] = self._at[instance]

    def clear(self, instance: int) -> None:
        """Forget an instance."""
        self._sums[instance] = 0

    def rates(self, now: float, *kinds: str) -> NDArray[np.float64]:
        """float64 [capacity, kinds], amounts a second."""
        fade = np.exp(-np.maximum(now - self._at, 0.0) / self._window_s) / self._window_s
        return self._sums[:, [_COLUMN[kind] for kind in kinds]] * fade[:, None]

    def mean(self, total: str, count: str) -> NDArray[np.float64]:
        """float64 [capacity]: one kind's sum by another's, NaN where there is next to nothing."""
        counts = self._sums[:, _COLUMN[count]]
        enough = counts > 1e-3
        return np.where(enough, self._sums[:, _COLUMN[total]] / np.where(enough, counts, 1), np.nan)
