"""One finder of thresholds: while serving and for `trserve tune`, whatever was estimated."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import trcore
from trsched.tuning.throughput import LIVE, THOROUGH, Situation, Throughput

STANDS = np.array([[1.0, 0.0], [1.0, 1.0]])
ROUNDING = 0.02
"""What steps rounded by up to 1 %, in either of two chains, may change of a throughput."""


@st.composite
def small_situations(draw: st.DrawFn) -> Situation:
    """Of two models with latencies linear in the batch; nearly all chains are small enough."""
    active = draw(st.integers(1, 5))
    p, q = draw(st.floats(0.05, 1.0)), draw(st.floats(0.05, 1.0))
    sizes = np.arange(1.0, active + 1)
    steps: list[NDArray[np.float64]] = [
        draw(st.floats(2e-3, 10e-3)) * (1 + draw(st.floats(0.0, 0.1)) * (sizes - 1)),
        draw(st.floats(10e-3, 30e-3)) * (1 + draw(st.floats(0.0, 0.1)) * (sizes - 1)),
    ]
    return Situation(
        routing=np.array([[1 - p, p], [q, 1 - q]]),
        commits=draw(st.sampled_from([STANDS, np.array([[1.0, 0.0], [1.0, 0.0]])])),
        step_seconds=steps,
        active=active,
        shared_device=draw(st.booleans()),
    )


@settings(deadline=None, max_examples=60)
@given(small_situations())
def test_the_live_tuner_and_the_command_agree(situation: Situation) -> None:
    live, thorough = Throughput(situation, LIVE), Throughput(situation, THOROUGH)
    assume(live.best.method == "chain")  # else steps are too unequal: see below
    assert thorough.best.method == "chain"
    exact = [
        trcore.solve(
            situation.routing,
            situation.commits,
            situation.step_seconds,
            situation.active,
            found.best.thresholds,
            exclusive=situation.shared_device,
        ).throughput
        for found in (live, thorough)
    ]
    assert exact[0] == pytest.approx(exact[1], rel=ROUNDING)
    for found in (live, thorough):
        assert found.best.tokens_per_s == pytest.approx(exact[1], rel=ROUNDING)


@pytest.mark.parametrize("rate", [0.0008, 0.01])
def test_models_that_hardly_hand_over(rate: float) -> None:
    """The chain would take 25 s of a core for this, and `Group.close` would wait for it."""
    active = 16
    sizes = np.arange(1, active + 1, dtype=np.float64)
    steps: list[NDArray[np.float64]] = [5e-3 + 1e-4 * sizes, 20e-3 + 7e-4 * sizes]
    routing = np.array([[1 - rate, rate], [rate, 1 - rate]])
    began = time.process_time()
    found = Throughput(Situation(routing, STANDS, steps, active, False), LIVE)
    assert time.process_time() - began < 2.0
    exact = trcore.solve(routing, STANDS, steps, active, [1, 1], quantum=5.2e-4)
    assert found.eager.tokens_per_s == pytest.approx(exact.throughput, rel=0.15)


def test_a_step_far_shorter_than_the_other() -> None:
    """A unit of time that suits both steps makes more states than a live tuner has time for."""
    steps = [np.full(4, 1e-4), np.full(4, 0.1)]
    routing = np.array([[0.9, 0.1], [1.0, 0.0]])
    commits = np.array([[1.0, 0.0], [1.0, 0.0]])
    found = Throughput(Situation(routing, commits, steps, 4, False), LIVE)
    exact = trcore.solve(routing, commits, steps, 4, [1, 1], quantum=1e-4)
    assert found.eager.tokens_per_s == pytest.approx(exact.throughput, rel=0.05)


def test_what_a_search_finds_is_no_worse_than_its_start() -> None:
    """By the draws of the report, which are others than those that picked it."""
    routing = np.array([[0.6, 0.3, 0.1], [0.5, 0.5, 0.0], [0.5, 0.0, 0.5]])
    steps = [np.full(6, seconds) for seconds in (2e-3, 5e-3, 9e-3)]
    situation = Situation(routing, np.ones((3, 3)), steps, 6, False)
    for start in ([1, 1, 1], [1, 2, 3]):
        found = Throughput(situation, LIVE, start)
        assert found.best.method == "simulation"
        assert found.best.tokens_per_s >= found.of(start).tokens_per_s
        assert found.of(found.best.thresholds) == found.best


def test_requests_that_stay_long_are_simulated_longer() -> None:
    """Of requests at once more than the chain is solved for, handed over once in 200 steps."""
    rate, active = 0.005, 33
    routing = np.array([[1 - rate, rate], [rate, 1 - rate]])
    steps = [np.full(active, 6e-3), np.full(active, 28e-3)]
    situation = Situation(routing, STANDS, steps, active, False)
    assert situation.mixing == pytest.approx(2 * rate)
    exact = trcore.simulate(routing, STANDS, steps, active, [1, 1], tokens=5_000_000)
    found = Throughput(situation, THOROUGH).eager
    assert found.tokens_per_s == pytest.approx(exact.throughput, rel=0.02)
