"""Delayed batching as a Markov chain."""

from collections.abc import Sequence
from typing import final

import numpy as np
from numpy.typing import ArrayLike, NDArray

class StateSpaceTooLargeError(ValueError):
    """The chain has more than `max_states` states (or 64 times as many transitions)."""

class ReducibleChainError(ValueError):
    """The chain has several recurrent classes: its throughput in the long run depends on chance."""

@final
class ChainSolution:
    """What `solve` found."""

    @property
    def throughput(self) -> float:
        """Tokens committed per second."""
    @property
    def busy(self) -> tuple[float, ...]:
        """Share of the time that each model runs."""
    @property
    def batch(self) -> tuple[float, ...]:
        """Mean batch of each model; 0 for one that never runs."""
    @property
    def waiting(self) -> tuple[float, ...]:
        """Mean seconds from a request's arrival at each model to the start of its batch."""
    @property
    def quantum(self) -> float:
        """Seconds."""
    @property
    def states(self) -> int:
        """States that can be reached from the first one."""
    @property
    def transitions(self) -> int:
        """Transitions between different states."""
    @property
    def sweeps(self) -> int:
        """Passes over all transitions that the solution took."""

def solve(
    P: ArrayLike,  # noqa: N803
    C: ArrayLike,  # noqa: N803
    L: Sequence[ArrayLike],  # noqa: N803
    N: int,  # noqa: N803
    B: Sequence[int],  # noqa: N803
    *,
    quantum: float | None = None,
    max_states: int = 200_000,
    exclusive: bool = False,
) -> ChainSolution:
    """Throughput of N requests under delayed batching with thresholds B, as a Markov chain.

    The chain of TokenRouter (arXiv 2610.12242, appendix "math_model"), embedded at batch
    completions. All requests begin waiting at model 0. When a model completes, each request of its
    batch goes from i to j with probability ``P[i, j]`` and commits ``C[i, j]`` tokens; models that
    complete in the same quantum all do so before any starts; then each idle model where ``B[i]``
    requests wait takes all that wait.

    P: [M, M], rows sum to 1.
    C: [M, M], 0 or more, not necessarily whole.
    L: for each model the seconds of a step by batch size 1, 2, ...; the last value holds beyond.
    N: 1 or more.
    B: [M], 1 to N each, sum(B - 1) < N.
    quantum: seconds that times are rounded to (each at least one). None: the coarsest that divides
        the shortest step into 1 to 64 and changes no step by more than 0.1 %, else the one of those
        that changes them least; 0.3 % and 1 % while the chain has more than `max_states` states.
    exclusive: the models share one device, so one runs at a time; when it is free, the models that
        may start take turns, beginning after the one that ran last.

    Throughput is right to 9 digits for the given quantum. Runs with the GIL released.

    ValueError names the argument that is wrong.
    StateSpaceTooLargeError: use `simulate`.
    ReducibleChainError: more than one recurrent class, as with two models that keep what they get.
    """

@final
class BestThresholds:
    """What `best_thresholds` found."""

    @property
    def thresholds(self) -> tuple[int, ...]:
        """[M]"""
    @property
    def throughput(self) -> float:
        """Tokens per second with these."""
    @property
    def candidates(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """All feasible thresholds, [count, M] in lexicographic order, and their throughput."""
    @property
    def largest_chain(self) -> int:
        """States of the largest of the chains."""
    @property
    def quantum(self) -> float:
        """Seconds, the same for all candidates."""

def best_thresholds(
    P: ArrayLike,  # noqa: N803
    C: ArrayLike,  # noqa: N803
    L: Sequence[ArrayLike],  # noqa: N803
    N: int,  # noqa: N803
    *,
    quantum: float | None = None,
    max_states: int = 200_000,
    exclusive: bool = False,
) -> BestThresholds:
    """The thresholds with the highest throughput: `solve` for all feasible B, one after another.

    Arguments and errors as for `solve`. Of those within 1e-9 of the best (relative) it is the one
    with the smallest sum, then the first in order. ValueError if more than 100,000 B are feasible.
    """
