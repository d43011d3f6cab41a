"""The reference table's pair (TokenRouter, arXiv 2610.12242), and small chains of every kind."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

SECONDS = [[0.006], [0.0279]]
QUANTUM = 1e-4
R2R_TOKENS = [[1.0, 0.0], [1.0, 0.0]]


def r2r(p: float = 0.35) -> list[list[float]]:
    """P: the small model hands over with probability `p`, the large one always."""
    return [[1 - p, p], [1.0, 0.0]]


@dataclass(frozen=True)
class Cooperation:
    """Arguments of a chain."""

    routing: list[list[float]]
    tokens: list[list[float]]
    seconds: list[list[float]]
    requests: int
    thresholds: list[int]
    exclusive: bool
    quantum: float = 1e-3

    @property
    def arguments(
        self,
    ) -> tuple[list[list[float]], list[list[float]], list[list[float]], int, list[int]]:
        """P, C, L, N, B."""
        return self.routing, self.tokens, self.seconds, self.requests, self.thresholds


@st.composite
def cooperations(draw: st.DrawFn) -> Cooperation:
    """One to three models, step times in whole quanta, some hand-offs that never happen."""
    models = draw(st.integers(1, 3))
    requests = draw(st.integers(1, 5 if models < 3 else 3))
    weights = st.lists(st.sampled_from([0, 1, 1, 2, 7]), min_size=models, max_size=models)
    rows = draw(st.lists(weights.filter(any), min_size=models, max_size=models))
    row = st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0]), min_size=models, max_size=models)
    steps = st.lists(st.integers(1, 8), min_size=1, max_size=requests)
    seconds = draw(st.lists(steps, min_size=models, max_size=models))
    thresholds = []
    spare = requests - 1
    for _ in range(models):
        thresholds.append(1 + draw(st.integers(0, spare)))
        spare -= thresholds[-1] - 1
    return Cooperation(
        [[w / sum(ws) for w in ws] for ws in rows],
        draw(st.lists(row, min_size=models, max_size=models)),
        [[s * 1e-3 for s in of] for of in seconds],
        requests,
        thresholds,
        draw(st.booleans()),
    )
