"""The optimum is found in a time that serving can spare, whatever was estimated."""

from __future__ import annotations

import time

import numpy as np
import pytest
from numpy.typing import NDArray

import trcore
from trsched.tuning.optimum import CHAIN_REQUESTS, Situation, fitting_quantum, optimum

STANDS = np.array([[1.0, 0.0], [1.0, 1.0]])


@pytest.mark.parametrize("rate", [0.0008, 0.01])
def test_models_that_hardly_hand_over(rate: float) -> None:
    """The chain would take 25 s of a core for this, and `Group.close` would wait for it."""
    sizes = np.arange(1, CHAIN_REQUESTS + 1, dtype=np.float64)
    steps: list[NDArray[np.float64]] = [5e-3 + 1e-4 * sizes, 20e-3 + 7e-4 * sizes]
    routing = np.array([[1 - rate, rate], [rate, 1 - rate]])
    began = time.process_time()
    found = optimum(Situation(routing, STANDS, steps, CHAIN_REQUESTS, False), [1, 1])
    assert time.process_time() - began < 2.0
    quantum, _ = fitting_quantum(np.concatenate(steps))
    exact = trcore.solve(routing, STANDS, steps, CHAIN_REQUESTS, [1, 1], quantum=quantum)
    assert found.present == pytest.approx(exact.throughput, rel=0.15)


def test_a_step_far_shorter_than_the_other() -> None:
    """The unit of time that suits the long step is longer than the short one: simulated."""
    steps = [np.full(4, 1e-4), np.full(4, 0.1)]
    assert fitting_quantum(np.concatenate(steps))[1] > 0.5
    routing = np.array([[0.9, 0.1], [1.0, 0.0]])
    commits = np.array([[1.0, 0.0], [1.0, 0.0]])
    found = optimum(Situation(routing, commits, steps, 4, False), [1, 1])
    exact = trcore.solve(routing, commits, steps, 4, [1, 1], quantum=1e-4)
    assert found.present == pytest.approx(exact.throughput, rel=0.05)
