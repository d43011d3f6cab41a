"""How a unit's cost is taken: a figure's name, a call, and how many units one call is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import pytest

T = TypeVar("T")


class Cost(Protocol):
    """Measures a call, and returns what it returned."""

    def __call__(self, figure: str, call: Callable[[], T], units: int = 1) -> T:
        """figure: its name in the last line of `benchmarks.units`, in microseconds a unit."""


@pytest.fixture
def cost(benchmark: Any) -> Cost:
    """Of one test's one unit."""

    def measured(figure: str, call: Callable[[], T], units: int = 1) -> T:
        benchmark.extra_info.update(figure=figure, units=units)
        found: T = benchmark(call)
        return found

    return measured
