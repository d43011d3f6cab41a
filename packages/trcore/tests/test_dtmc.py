"""The Markov chain of delayed batching: figures that were published, laws that must hold."""

from __future__ import annotations

import pytest

from packages.trcore.tests.chains import QUANTUM, R2R_TOKENS, SECONDS, r2r
from trcore import best_thresholds


@pytest.mark.parametrize(
    ("requests", "feasible", "largest", "thresholds", "throughput", "gain"),
    [
        (2, 3, 12, (1, 2), "110.3", "11.5"),
        (4, 10, 715, (1, 3), "208.0", "11.1"),
        (8, 36, 3453, (1, 5), "399.0", "8.1"),
        (16, 136, 14257, (2, 10), "785.4", "7.1"),
    ],
)
def test_reference_table(
    requests: int,
    feasible: int,
    largest: int,
    thresholds: tuple[int, int],
    throughput: str,
    gain: str,
) -> None:
    best = best_thresholds(r2r(), R2R_TOKENS, SECONDS, requests, quantum=QUANTUM)
    candidates, throughputs = best.candidates
    assert candidates.shape == (feasible, 2)
    assert best.largest_chain == largest
    assert best.thresholds == thresholds
    assert f"{best.throughput:.1f}" == throughput
    eager = throughputs[candidates.tolist().index([1, 1])]
    assert f"{100 * (best.throughput / eager - 1):.1f}" == gain
