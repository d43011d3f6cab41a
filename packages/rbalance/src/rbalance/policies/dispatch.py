"""Choosing an instance among some by load alone: what stands behind a router of models.

Each takes candidates int [C] (instances' numbers, at least one), load [I] (requests running and
waiting), last [I] (the later an instance was last assigned, the larger), and a generator of random
numbers, and returns one candidate.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Dispatch: TypeAlias = Callable[
    [NDArray[np.intp], NDArray[np.float64], NDArray[np.int64], np.random.Generator], int
]


def round_robin(
    candidates: NDArray[np.intp],
    load: NDArray[np.float64],
    last: NDArray[np.int64],
    random: np.random.Generator,
) -> int:
    """The one whose turn is longest ago."""
    return int(candidates[last[candidates].argmin()])


def shortest_queue(
    candidates: NDArray[np.intp],
    load: NDArray[np.float64],
    last: NDArray[np.int64],
    random: np.random.Generator,
) -> int:
    """The least loaded; among equals the one whose turn is longest ago."""
    loads = load[candidates]
    shortest = candidates[loads == loads.min()]
    return int(shortest[last[shortest].argmin()])


def uniform_random(
    candidates: NDArray[np.intp],
    load: NDArray[np.float64],
    last: NDArray[np.int64],
    random: np.random.Generator,
) -> int:
    """Any."""
    return int(random.choice(candidates))


def power_of_two(
    candidates: NDArray[np.intp],
    load: NDArray[np.float64],
    last: NDArray[np.int64],
    random: np.random.Generator,
) -> int:
    """The less loaded of two drawn at random."""
    drawn = random.choice(candidates, min(2, len(candidates)), replace=False)
    return shortest_queue(drawn, load, last, random)


DISPATCHES: dict[str, Dispatch] = {
    "round-robin": round_robin,
    "shortest-queue": shortest_queue,
    "random": uniform_random,
    "power-of-two": power_of_two,
}

DRAWING = (uniform_random, power_of_two)
"""Those that use the generator."""
