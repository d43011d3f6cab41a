"""A sample of seconds in a few numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Distribution:
    """Of n values; percentiles interpolate linearly between order statistics (numpy's default)."""

    n: int
    mean: float
    p50: float
    p90: float
    p95: float
    p99: float
    max: float


def distribution(values: Iterable[float]) -> Distribution | None:
    """None of no values."""
    array = np.fromiter(values, np.float64)
    if not len(array):
        return None
    p50, p90, p95, p99 = np.percentile(array, (50, 90, 95, 99)).tolist()
    mean, most = float(array.mean()), float(array.max())
    return Distribution(n=len(array), mean=mean, p50=p50, p90=p90, p95=p95, p99=p99, max=most)
