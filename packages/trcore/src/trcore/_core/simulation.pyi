"""Delayed batching by discrete events."""

from collections.abc import Sequence
from typing import Literal, SupportsIndex, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

@final
class Simulated:
    """What `simulate` saw, after the run had warmed up."""

    @property
    def throughput(self) -> float:
        """Tokens committed per second."""
    @property
    def half_width(self) -> float:
        """Of a 95 % confidence interval, by batch means; infinite for a very short run."""
    @property
    def busy(self) -> tuple[float, ...]:
        """Share of the time that each model runs."""
    @property
    def batch(self) -> tuple[float, ...]:
        """Mean batch of each model; 0 for one that never ran."""
    @property
    def waiting(self) -> tuple[float, ...]:
        """Mean seconds from a request's arrival at each model to the start of its batch."""
    @property
    def seconds(self) -> float:
        """Virtual time."""
    @property
    def tokens(self) -> float:
        """Committed in that time."""
    @property
    def steps(self) -> int:
        """Requests in batches, in that time."""

def simulate(
    P: ArrayLike,  # noqa: N803
    C: ArrayLike,  # noqa: N803
    L: Sequence[ArrayLike],  # noqa: N803
    N: int,  # noqa: N803
    B: Sequence[int],  # noqa: N803
    *,
    tokens: int = 100_000,
    seed: SupportsIndex = 0,
    exclusive: bool = False,
    turns: Literal["oldest", "next"] = "oldest",
    extend: ArrayLike = 0.0,
) -> Simulated:
    """What `solve` computes, by discrete events on a virtual clock, without quanta.

    P: [M, M], or [K, M, M] where routing depends on how long a request has been at its model:
    ``P[k]`` is for its (k+1)-th step since it arrived there, the last row for all later ones.
    C, L, N (up to 2**20), B as for `solve`.

    tokens: how many to commit in the measured part, after 1/8 as many that aren't counted; it ends
        sooner, after 64 steps for each of them, where hardly any are committed.
    exclusive: one model runs at a time.
    turns: which one when several may: ``"oldest"``, the one whose first request has waited longest,
        or ``"next"``, in turn, as `solve` does.
    extend: seconds, one number or [M], for each token that was committed since the request's last
        step at the model, but one.

    A request's n-th step is routed by a draw that depends on (seed, request, n) alone: different B
    see the same random numbers. Runs with the GIL released. ValueError names the argument.
    """

@final
class SearchedThresholds:
    """What `search_thresholds` found."""

    @property
    def thresholds(self) -> tuple[int, ...]:
        """[M]"""
    @property
    def throughput(self) -> float:
        """Tokens per second with these, by the draws of the search, which flatter it a little."""
    @property
    def half_width(self) -> float:
        """Of its 95 % confidence interval."""
    @property
    def candidates(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Thresholds simulated, [count, M] in the order of the search, and their throughput."""

def search_thresholds(
    P: ArrayLike,  # noqa: N803
    C: ArrayLike,  # noqa: N803
    L: Sequence[ArrayLike],  # noqa: N803
    N: int,  # noqa: N803
    *,
    tokens: int = 20_000,
    seed: SupportsIndex = 0,
    exclusive: bool = False,
    turns: Literal["oldest", "next"] = "oldest",
    extend: ArrayLike = 0.0,
    start: Sequence[int] | None = None,
    max_evaluations: int = 256,
) -> SearchedThresholds:
    """Good thresholds by simulation, all with the same draws; arguments as for `simulate`.

    All feasible B if there are at most `max_evaluations`. Else uphill from `start`, from all 1 and
    from thresholds that favour one model: one changes by 1, 2, 4, ..., or two in opposite
    directions, as long as that helps. Ties as in `best_thresholds`. ValueError names the argument.
    """
