"""The Markov chain of delayed batching: figures that were published, laws that must hold."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from packages.trcore.tests.brute_chain import BruteChain
from packages.trcore.tests.chains import (
    QUANTUM,
    R2R_TOKENS,
    SECONDS,
    Cooperation,
    cooperations,
    r2r,
)
from packages.trcore.tests.ticks import ticks_during
from trcore import ReducibleChainError, StateSpaceTooLargeError, best_thresholds, solve


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


@given(cooperations())
@settings(max_examples=120, deadline=None)
def test_equals_brute_force(case: Cooperation) -> None:
    brute = BruteChain(*case.arguments, quantum=case.quantum, exclusive=case.exclusive)
    try:
        chain = solve(*case.arguments, quantum=case.quantum, exclusive=case.exclusive)
    except ReducibleChainError:
        assert brute.closed_classes() > 1
        return
    assert brute.closed_classes() == 1
    assert chain.states == len(brute.states)
    expected = brute.solve()
    assert chain.throughput == pytest.approx(expected.throughput, rel=1e-9, abs=1e-9)
    assert chain.busy == pytest.approx(expected.busy, rel=1e-9, abs=1e-12)
    assert chain.batch == pytest.approx(expected.batch, rel=1e-9, abs=1e-12)
    assert chain.waiting == pytest.approx(expected.waiting, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(("models", "requests"), [(1, 5), (2, 1), (2, 6), (3, 4)])
def test_candidates_are_all_that_cannot_deadlock(models: int, requests: int) -> None:
    even = np.full((models, models), 1 / models)
    best = best_thresholds(even, even, [[0.001]] * models, requests)
    expected = [
        list(b)
        for b in product(range(1, requests + 1), repeat=models)
        if sum(b) - models < requests
    ]
    candidates, throughputs = best.candidates
    assert candidates.tolist() == expected
    for b, throughput in zip(expected, throughputs, strict=True):
        one = solve(even, even, [[0.001]] * models, requests, b, quantum=best.quantum)
        assert one.throughput == throughput
    assert best.throughput == pytest.approx(throughputs.max(), rel=1e-9)


def test_ties_go_to_the_smallest() -> None:
    """Whatever B_0 is: all requests go round together, and with them the same throughput."""
    best = best_thresholds([[0.0, 1.0], [1.0, 0.0]], [[1, 1], [1, 1]], SECONDS, 5)
    assert np.ptp(best.candidates[1]) < 1e-9
    assert best.thresholds == (1, 1)


def test_longer_steps_for_larger_batches_lower_the_best_thresholds() -> None:
    slower = [[0.006], [0.0279 * (1 + 0.5 * b) for b in range(8)]]
    flat = best_thresholds(r2r(), R2R_TOKENS, SECONDS, 8)
    steep = best_thresholds(r2r(), R2R_TOKENS, slower, 8)
    assert steep.throughput < flat.throughput


@pytest.mark.parametrize("p", [1e-6, 1e-3, 0.999, 1 - 1e-6])
def test_rare_hand_offs_are_solved_to_the_last_digits(p: float) -> None:
    """Chains that hardly mix: both directions rare, so that the time between them is long."""
    routing = [[1 - p, p], [p, 1 - p]]
    case = (routing, R2R_TOKENS, [[0.002], [0.003]], 3, (2, 1))
    chain = solve(*case, quantum=1e-3)
    expected = BruteChain(*case, quantum=1e-3).by_elimination()
    assert chain.throughput == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("thresholds", [(1, 1), (2, 2), (1, 3)])
def test_deterministic_routing_is_periodic_and_yet_solved(thresholds: tuple[int, int]) -> None:
    """All three move together: 3 tokens at each end, 33.9 ms for the round."""
    routing = [[0.0, 1.0], [1.0, 0.0]]
    chain = solve(routing, [[0, 1], [1, 0]], SECONDS, 3, thresholds, quantum=QUANTUM)
    assert chain.throughput == pytest.approx(6 / 0.0339)
    assert chain.busy == pytest.approx((6 / 33.9, 27.9 / 33.9))
    assert chain.batch == (3, 3)


def test_fractional_tokens_count_as_they_are() -> None:
    whole = solve(r2r(), [[1, 0], [1, 0]], SECONDS, 4, (1, 3))
    half = solve(r2r(), [[0.5, 0], [0.5, 0]], SECONDS, 4, (1, 3))
    assert half.throughput == pytest.approx(whole.throughput / 2)


def test_one_model_takes_everything_each_step() -> None:
    chain = solve([[1.0]], [[1.0]], [[0.01, 0.02, 0.04]], 3, (2,))
    assert chain.throughput == pytest.approx(3 / 0.04)
    assert (chain.busy, chain.batch, chain.waiting) == ((1.0,), (3.0,), (0.0,))


def test_models_that_share_a_device_never_overlap() -> None:
    apart = solve(r2r(), R2R_TOKENS, SECONDS, 8, (1, 5))
    shared = solve(r2r(), R2R_TOKENS, SECONDS, 8, (1, 5), exclusive=True)
    assert sum(shared.busy) == pytest.approx(1)
    assert sum(apart.busy) > 1
    assert shared.throughput < apart.throughput


def test_a_model_that_keeps_everything_is_one_class() -> None:
    chain = solve([[0.5, 0.5], [0.0, 1.0]], [[1, 0], [0, 2]], SECONDS, 3, (1, 1))
    assert chain.throughput == pytest.approx(6 / 0.0279, rel=2e-3)
    assert chain.busy == (0, 1)


def test_two_models_that_keep_what_they_get_are_named() -> None:
    routing = [[0.5, 0.25, 0.25], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    with pytest.raises(
        ReducibleChainError, match=r"models \{1\} and \{2\} and never leave"
    ) as error:
        solve(routing, np.eye(3), [[0.01]] * 3, 2, (1, 1, 1))
    assert isinstance(error.value, ValueError)


def test_requests_that_keep_their_distance_for_ever() -> None:
    """Where the two are, in time, when they have left model 0 is chance, and then it stays so."""
    routing = [[0.5, 0.5, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0]]
    with pytest.raises(ReducibleChainError, match="keep their distance in time"):
        solve(routing, np.ones((3, 3)), [[0.002], [0.007], [0.007]], 2, (1, 1, 1), quantum=1e-3)


def test_too_many_states() -> None:
    with pytest.raises(
        StateSpaceTooLargeError, match=r"\(1, 1\) has 101 states .* 100: .*simulate"
    ):
        solve(r2r(), R2R_TOKENS, SECONDS, 8, (1, 1), quantum=QUANTUM, max_states=100)
    with pytest.raises(StateSpaceTooLargeError, match="use simulate"):
        solve(np.full((4, 4), 0.25), np.eye(4), [[0.01]] * 4, 4096, (1, 1, 1, 1))
    with pytest.raises(StateSpaceTooLargeError, match="use simulate"):
        solve(r2r(), R2R_TOKENS, SECONDS, 10**15, (1, 1))
    assert issubclass(StateSpaceTooLargeError, ValueError)


def test_a_quantum_of_its_own_choice_is_close_and_gets_coarser_when_it_must() -> None:
    exact = solve(r2r(), R2R_TOKENS, SECONDS, 8, (1, 1), quantum=QUANTUM)
    chosen = solve(r2r(), R2R_TOKENS, SECONDS, 8, (1, 1))
    assert chosen.throughput == pytest.approx(exact.throughput, rel=2e-3)
    assert 0.006 / 64 <= chosen.quantum <= 0.006
    few = solve(r2r(), R2R_TOKENS, SECONDS, 8, (1, 1), max_states=chosen.states - 1)
    assert few.states < chosen.states
    assert few.quantum > chosen.quantum
    assert few.throughput == pytest.approx(exact.throughput, rel=0.02)
    with pytest.raises(StateSpaceTooLargeError):
        solve(r2r(), R2R_TOKENS, SECONDS, 8, (1, 1), max_states=20)


GOOD: dict[str, Any] = {
    "P": r2r(), "C": R2R_TOKENS, "L": SECONDS, "N": 4, "B": (1, 2)
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("P", [[0.5, 0.4], [1, 0]]),
        ("P", [[1.5, -0.5], [1, 0]]),
        ("P", [[float("nan"), 1], [1, 0]]),
        ("P", [[0.5, 0.5]]),
        ("P", [0.5, 0.5]),
        ("P", [[[0.5, 0.5], [1, 0]]] * 2),
        ("P", []),
        ("P", "abc"),
        ("P", [[0.5, 0.5], [1]]),
        ("C", [[1, 0, 0], [1, 0, 0]]),
        ("C", [[-1, 0], [1, 0]]),
        ("C", [[float("inf"), 0], [1, 0]]),
        ("C", None),
        ("L", [[0.01]]),
        ("L", [[0.01], []]),
        ("L", [[0.01], [0.0]]),
        ("L", [[0.01], [float("nan")]]),
        ("L", [0.01, 0.02]),
        ("L", 0.01),
        ("N", 0),
        ("N", -1),
        ("B", (1,)),
        ("B", (0, 1)),
        ("B", (3, 3)),
        ("quantum", 0.0),
        ("quantum", -1.0),
        ("quantum", float("nan")),
        ("quantum", float("inf")),
        ("max_states", 0),
        ("max_states", 2**40),
    ],
)
def test_what_is_wrong_is_named(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=rf"^{name}: "):
        solve(**{**GOOD, name: value})
    if name != "B":
        arguments = {key: each for key, each in GOOD.items() if key != "B"}
        with pytest.raises(ValueError, match=rf"^{name}: "):
            best_thresholds(**{**arguments, name: value})


def test_a_deadlock_is_called_one() -> None:
    with pytest.raises(ValueError, match=r"\(3, 3\) deadlocks 4 requests: the sum of \(B_i - 1\)"):
        solve(r2r(), R2R_TOKENS, SECONDS, 4, (3, 3))


def test_too_many_candidates() -> None:
    with pytest.raises(ValueError, match="use search_thresholds"):
        best_thresholds(r2r(), R2R_TOKENS, SECONDS, 1000)


def test_other_threads_go_on_meanwhile() -> None:
    def call() -> None:
        best_thresholds(r2r(), R2R_TOKENS, SECONDS, 16, quantum=QUANTUM)

    # Some 80 ms. With the lock held there would be a tick or two.
    assert ticks_during(call) >= 10
