"""The chain of `trcore.solve` again, as plainly as can be: dictionaries and a dense solve."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import factorial, prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Row = Sequence[float]


class Model(NamedTuple):
    """Waiting, running, quanta left (0: idle)."""

    waiting: int
    running: int
    left: int


State = tuple[Model, ...]


@dataclass(frozen=True)
class BruteSolution:
    """As trcore.ChainSolution."""

    throughput: float
    busy: NDArray[np.float64]
    batch: NDArray[np.float64]
    waiting: NDArray[np.float64]


def compositions(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    """Every way to write `total` as an ordered sum of `parts` numbers of 0 or more."""
    if parts == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in compositions(total - first, parts - 1):
            yield (first, *rest)


class BruteChain:
    """One chain; arguments as for `trcore.solve`."""

    def __init__(
        self,
        routing: Sequence[Row],
        tokens: Sequence[Row],
        seconds: Sequence[Row],
        requests: int,
        thresholds: Sequence[int],
        *,
        quantum: float,
        exclusive: bool = False,
    ) -> None:
        self.routing, self.tokens, self.thresholds = routing, tokens, thresholds
        self.exclusive, self.quantum, self.models = exclusive, quantum, len(routing)
        self.quanta = [
            [max(1, round(row[min(b, len(row)) - 1] / quantum)) for b in range(1, requests + 1)]
            for row in seconds
        ]
        begin = (Model(requests, 0, 0), *(Model(0, 0, 0) for _ in range(self.models - 1)))
        first = self.started(begin, last=self.models - 1)
        self.states: dict[State, int] = {first: 0}
        self.rows: list[dict[State, float]] = []
        queue = [first]
        for state in queue:
            row = self.row(state)
            self.rows.append(row)
            for after in row:
                if after not in self.states:
                    self.states[after] = len(self.states)
                    queue.append(after)

    def started(self, state: State, last: int) -> State:
        turns = [(last + 1 + i) % self.models for i in range(self.models)]
        for i in turns if self.exclusive else range(self.models):
            waiting, _, left = state[i]
            if left == 0 and waiting >= self.thresholds[i]:
                batch = Model(0, waiting, self.quanta[i][waiting - 1])
                state = (*state[:i], batch, *state[i + 1 :])
                if self.exclusive:
                    break
        return state

    def row(self, state: State) -> dict[State, float]:
        lasts = min(m.left for m in state if m.left)
        completed = [i for i, m in enumerate(state) if m.left == lasts]
        later = tuple(
            Model(m.waiting, 0, 0)
            if i in completed
            else m._replace(left=m.left - lasts if m.left else 0)
            for i, m in enumerate(state)
        )
        outcomes: dict[State, float] = {later: 1.0}
        for i in completed:
            split: dict[State, float] = defaultdict(float)
            for before, chance in outcomes.items():
                for counts in compositions(state[i].running, self.models):
                    ways = factorial(state[i].running) / prod(map(factorial, counts))
                    p = ways * prod(q**n for q, n in zip(self.routing[i], counts, strict=True))
                    if p > 0:
                        after = tuple(
                            m._replace(waiting=m.waiting + n)
                            for m, n in zip(before, counts, strict=True)
                        )
                        split[after] += chance * p
            outcomes = split
        row: dict[State, float] = defaultdict(float)
        for before, chance in outcomes.items():
            row[self.started(before, completed[0])] += chance
        return row

    def transitions(self) -> NDArray[np.float64]:
        n = len(self.states)
        matrix = np.zeros((n, n))
        for at, row in enumerate(self.rows):
            for after, chance in row.items():
                matrix[at, self.states[after]] += chance
        return matrix

    def closed_classes(self) -> int:
        reach = self.transitions() + np.eye(len(self.states)) > 0
        while True:
            further = reach @ reach
            if (further == reach).all():
                break
            reach = further
        returns = (~reach | reach.T).all(1)  # whatever is reached leads back: recurrent
        return len({row.tobytes() for row in reach[returns]})

    def by_elimination(self) -> float:
        """Throughput of an irreducible chain, right however slowly it mixes: no subtraction."""
        t = self.transitions()
        n = len(t)
        for k in range(n - 1, 0, -1):
            t[:k, k] /= t[k, :k].sum()
            t[:k, :k] += np.outer(t[:k, k], t[k, :k])
        pi = np.ones(n)
        for k in range(1, n):
            pi[k] = pi[:k] @ t[:k, k]
        return self.summary(pi / pi.sum()).throughput

    def solve(self) -> BruteSolution:
        n = len(self.states)
        # pi (P - 1) = 0 and sum(pi) = 1
        system = np.vstack([self.transitions().T - np.eye(n), np.ones(n)])
        pi = np.linalg.lstsq(system, np.append(np.zeros(n), 1.0), rcond=None)[0]
        pi[np.abs(pi) < 1e-12] = 0.0  # transient
        return self.summary(pi)

    def summary(self, pi: NDArray[np.float64]) -> BruteSolution:
        lasts = np.array([min(m.left for m in s if m.left) for s in self.states], dtype=float)
        of_step = np.einsum("ij,ij->i", np.array(self.routing), np.array(self.tokens))
        waiting, running, left = np.array(list(self.states)).transpose(2, 1, 0)
        completes = (left == lasts) * pi
        time = pi @ lasts * self.quantum
        flow = (completes * running).sum(1)
        with np.errstate(invalid="ignore", divide="ignore"):
            batch = np.nan_to_num(flow / completes.sum(1))
            waits = np.nan_to_num(waiting @ (pi * lasts) * self.quantum / flow)
        return BruteSolution(
            throughput=of_step @ flow / time,
            busy=(left > 0) @ (pi * lasts) / (pi @ lasts),
            batch=batch,
            waiting=waits,
        )
