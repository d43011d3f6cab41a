"""The reference table's pair (TokenRouter, arXiv 2610.12242): R2R, steps of 6.0 and 27.9 ms."""

from __future__ import annotations

SECONDS = [[0.006], [0.0279]]
QUANTUM = 1e-4
R2R_TOKENS = [[1.0, 0.0], [1.0, 0.0]]


def r2r(p: float = 0.35) -> list[list[float]]:
    """P: the small model hands over with probability `p`, the large one always."""
    return [[1 - p, p], [1.0, 0.0]]
