"""The Markov chain of `trcore.solve` in Python and scipy.sparse, as one would write it for oneself.

States are tuples in a dictionary, the splits of a batch are computed once and kept, the matrix is
sparse, and the stationary distribution comes from lazy power iteration. (A sparse LU by SuperLU
took twenty times as long for N = 16.)
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import product
from math import comb

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, identity

TOLERANCE = 1e-9
State = tuple[int, ...]
"""(waiting, running, quanta left) of one model after the other."""


def stationary(transposed: csr_matrix) -> NDArray[np.float64]:
    """Lazy power iteration, by tens of steps; `transposed`: column s holds what leaves state s."""
    lazy = transposed * 0.5 + identity(transposed.shape[0], format="csr") * 0.5
    pi = np.full(transposed.shape[0], 1.0 / transposed.shape[0])
    before = np.inf
    while True:
        for _ in range(20):
            pi = lazy @ pi
        change = np.abs(lazy @ pi - pi).sum()
        # The error that is left, from the rate at which the changes shrink (over 20 steps).
        rate = (change / before) ** (1 / 20) if before < np.inf else 1.0
        before = change
        if change < 1e-15 or (rate < 1 and change / (1 - rate) < TOLERANCE):
            return pi


class PythonChain:
    """Chains for one P, C, L and N, and any thresholds. L: one number of quanta for each model."""

    def __init__(
        self,
        routing: Sequence[Sequence[float]],
        tokens: Sequence[Sequence[float]],
        quanta: Sequence[int],
        requests: int,
    ) -> None:
        self.models = len(routing)
        self.requests = requests
        self.quanta = quanta
        self.routing = routing
        self.of_step = [
            sum(p * c for p, c in zip(*rows, strict=True))
            for rows in zip(routing, tokens, strict=True)
        ]
        self.split = cache(self._split)

    def _split(self, model: int, batch: int) -> list[tuple[State, float]]:
        """Ways in which a batch may go on, as numbers for each model, and their probabilities."""
        ways: list[tuple[State, float]] = [((), 1.0)]
        open_mass = 1.0
        for p in self.routing[model]:
            share = min(1.0, p / open_mass) if open_mass > 0 else 0.0
            longer = []
            for counts, chance in ways:
                rest = batch - sum(counts)
                for n in range(rest + 1):
                    q = chance * comb(rest, n) * share**n * (1 - share) ** (rest - n)
                    if q > 0:
                        longer.append(((*counts, n), q))
            ways = longer
            open_mass -= p
        return [(counts, chance) for counts, chance in ways if sum(counts) == batch]

    def _start(self, state: list[int], thresholds: Sequence[int]) -> State:
        for i in range(self.models):
            waiting = state[3 * i]
            if state[3 * i + 2] == 0 and waiting >= thresholds[i]:
                state[3 * i : 3 * i + 3] = 0, waiting, self.quanta[i]
        return tuple(state)

    def throughput(self, thresholds: Sequence[int]) -> tuple[float, int]:
        """Tokens per quantum, and the number of states."""
        first = self._start([self.requests] + [0] * (3 * self.models - 1), thresholds)
        index = {first: 0}
        states = [first]
        rows, columns, chances = [], [], []
        lasts, committed = [], []
        for at, state in enumerate(states):  # grows meanwhile
            time = min(left for left in state[2::3] if left)
            lasts.append(time)
            later = list(state)
            completed = []
            tokens = 0.0
            for i in range(self.models):
                if state[3 * i + 2] == time:
                    later[3 * i + 1] = later[3 * i + 2] = 0
                    completed.append(self.split(i, state[3 * i + 1]))
                    tokens += self.of_step[i] * state[3 * i + 1]
                elif state[3 * i + 2]:
                    later[3 * i + 2] -= time
            committed.append(tokens)
            for ways in product(*completed):
                after = later.copy()
                chance = 1.0
                for counts, q in ways:
                    chance *= q
                    for j, n in enumerate(counts):
                        after[3 * j] += n
                to = self._start(after, thresholds)
                if to not in index:
                    index[to] = len(states)
                    states.append(to)
                rows.append(at)
                columns.append(index[to])
                chances.append(chance)
        size = len(states)
        pi = stationary(csr_matrix((chances, (columns, rows)), shape=(size, size)))
        return float(pi @ committed / (pi @ lasts)), size

    def best(self) -> tuple[tuple[int, ...], float, int]:
        """Best thresholds, their tokens per quantum, and the states of the largest chain."""
        found: tuple[tuple[int, ...], float] = ((), 0.0)
        largest = 0
        for thresholds in product(range(1, self.requests + 1), repeat=self.models):
            if sum(thresholds) - self.models < self.requests:
                throughput, states = self.throughput(thresholds)
                largest = max(largest, states)
                if throughput > found[1] * (1 + 1e-9):
                    found = thresholds, throughput
        return *found, largest
