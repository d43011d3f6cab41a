"""The simulation of delayed batching: against the chain, against arithmetic, against itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from packages.trcore.tests.chains import QUANTUM, R2R_TOKENS, SECONDS, r2r
from packages.trcore.tests.ticks import ticks_during
from trcore import simulate, solve

CASES = 64
SIGMAS = 4.6  # two-sided 0.01 % of Student's t with 31 degrees, for all 64 cases together 0.6 %
STUDENT = 2.04  # half_width / standard error


def random_case(seed: int) -> tuple[dict[str, Any], bool]:
    """Two models, or three; step times by batch, in whole milliseconds; and whether they share."""
    rng = np.random.default_rng(seed)
    models = 3 if seed % 8 == 0 else 2
    requests = int(rng.integers(2, 5 if models == 3 else 9))
    spare = requests - 1
    thresholds = []
    for _ in range(models):
        thresholds.append(1 + int(rng.integers(0, spare + 1)))
        spare -= thresholds[-1] - 1
    first = rng.integers(2, 30, size=models)
    growth = rng.choice([0, 1, 2], size=models)
    return {
        "P": rng.dirichlet(np.ones(models), size=models),
        "C": rng.choice([0.0, 0.5, 1.0, 2.0], size=(models, models)) + 0.1,
        "L": [
            [(f + g * b) * 1e-3 for b in range(requests)]
            for f, g in zip(first, growth, strict=True)
        ],
        "N": requests,
        "B": thresholds,
    }, seed % 4 == 1


@pytest.mark.parametrize("seed", range(CASES))
def test_agrees_with_the_chain(seed: int) -> None:
    case, exclusive = random_case(seed)
    chain = solve(**case, quantum=1e-3, exclusive=exclusive)
    run = simulate(**case, tokens=150_000, seed=seed, exclusive=exclusive, turns="next")
    assert abs(run.throughput - chain.throughput) < run.half_width / STUDENT * SIGMAS
    assert run.half_width < 0.03 * chain.throughput
    assert run.busy == pytest.approx(chain.busy, abs=0.02)
    assert run.batch == pytest.approx(chain.batch, rel=0.05)
    assert run.waiting == pytest.approx(chain.waiting, rel=0.1, abs=2e-4)


def test_the_reference_pair() -> None:
    run = simulate(r2r(), R2R_TOKENS, SECONDS, 8, (1, 5), tokens=2_000_000)
    chain = solve(r2r(), R2R_TOKENS, SECONDS, 8, (1, 5), quantum=QUANTUM)
    assert run.throughput == pytest.approx(chain.throughput, abs=2 * run.half_width)
    assert run.half_width < 0.002 * chain.throughput


def test_confidence_intervals_hold_what_they_promise() -> None:
    """At 95 %, of 100 runs 88 to 99 contain the truth (but once in 500 sets of seeds)."""
    truth = solve(r2r(), R2R_TOKENS, SECONDS, 4, (1, 3), quantum=QUANTUM).throughput
    runs = [
        simulate(r2r(), R2R_TOKENS, SECONDS, 4, (1, 3), tokens=20_000, seed=s) for s in range(100)
    ]
    inside = sum(abs(run.throughput - truth) <= run.half_width for run in runs)
    assert 88 <= inside <= 99


def test_draws_are_common_to_all_thresholds() -> None:
    """The difference of two thresholds varies less than if their runs were independent."""
    pairs = np.array(
        [
            [
                simulate(r2r(), R2R_TOKENS, SECONDS, 8, b, tokens=5000, seed=s).throughput
                for b in ((1, 5), (1, 4))
            ]
            for s in range(60)
        ]
    )
    independent = pairs.var(axis=0, ddof=1).sum()
    assert (pairs[:, 0] - pairs[:, 1]).var(ddof=1) < 0.5 * independent


def test_a_seed_repeats_a_run_and_another_does_not() -> None:
    runs = [
        simulate(r2r(), R2R_TOKENS, SECONDS, 8, (1, 5), tokens=1000, seed=seed).throughput
        for seed in (7, 7, 8, 2**64 - 1)
    ]
    assert runs[0] == runs[1]
    assert len(set(runs)) == 3


def test_deterministic_rounds_are_exact() -> None:
    """Three requests go round together: 6 tokens in 33.9 ms, nobody waits."""
    # 32 segments of 32 rounds each
    run = simulate([[0, 1], [1, 0]], [[0, 1], [1, 0]], SECONDS, 3, (2, 2), tokens=6144)
    assert run.throughput == pytest.approx(6 / 0.0339)
    assert run.half_width == pytest.approx(0, abs=1e-6)
    assert list(run.batch) == [3, 3]
    assert list(run.waiting) == [0, 0]
    assert run.busy == pytest.approx((6 / 33.9, 27.9 / 33.9))


def test_runs_of_a_given_length() -> None:
    """Exactly 4 steps at model 0, then one at model 1, which a geometric run cannot be."""
    routing = [r2r(0.0)] * 3 + [r2r(1.0)]
    run = simulate(routing, [[1, 0], [1, 0]], SECONDS, 1, (1, 1), tokens=4000)
    assert run.throughput == pytest.approx(4 / (4 * 0.006 + 0.0279), rel=1e-3)


def test_the_last_row_holds_for_all_longer_runs() -> None:
    same = simulate(r2r(), R2R_TOKENS, SECONDS, 4, (1, 2), tokens=10_000)
    rows = simulate([r2r()] * 3, R2R_TOKENS, SECONDS, 4, (1, 2), tokens=10_000)
    assert rows.throughput == same.throughput


def test_resumed_requests_read_what_was_written_meanwhile() -> None:
    """Model 0 writes 4 tokens, model 1 then reads these and its own last one: 4 beyond the first.
    Model 0 then reads its last one and model 1's: 1 beyond the first.
    """
    routing = [[[1, 0], [1, 0]]] * 3 + [[[0, 1], [1, 0]]]
    arguments = (routing, [[1, 1], [1, 1]], [[0.01], [0.02]], 1, (1, 1))
    for extend, extra in ((0.0, 0.0), (0.004, 0.02), ([0.004, 0], 0.004), ([0, 0.004], 0.016)):
        run = simulate(*arguments, tokens=5000, extend=extend)
        assert run.throughput == pytest.approx(5 / (0.06 + extra), rel=1e-3)


def test_oldest_first_differs_from_turns_with_three_models() -> None:
    routing = [[0.1, 0.6, 0.3], [0.5, 0.25, 0.25], [0.3, 0.3, 0.4]]
    arguments = (routing, np.ones((3, 3)), [[0.004], [0.007], [0.03]], 12, (1, 2, 5))
    oldest = simulate(*arguments, exclusive=True)
    turns = simulate(*arguments, exclusive=True, turns="next")
    assert sum(oldest.busy) == pytest.approx(1)
    assert sum(turns.busy) == pytest.approx(1)
    assert oldest.throughput != turns.throughput
    # First come, first served is fair: the waits differ less.
    assert np.ptp(oldest.waiting) < np.ptp(turns.waiting)


def test_oldest_first_of_two_models_alternates_and_so_equals_turns() -> None:
    """With B = 1 the queue that waited during a step is older than what the step sends back."""
    arguments = (r2r(), R2R_TOKENS, SECONDS, 8, (1, 1))
    oldest = simulate(*arguments, exclusive=True)
    assert oldest.throughput == simulate(*arguments, exclusive=True, turns="next").throughput


def test_without_tokens_it_ends() -> None:
    run = simulate(r2r(), np.zeros((2, 2)), SECONDS, 4, (1, 2), tokens=100)
    assert run.throughput == 0
    assert run.half_width == float("inf")
    assert run.steps >= 6400


def test_many_requests() -> None:
    run = simulate(r2r(), R2R_TOKENS, SECONDS, 256, (21, 163), tokens=100_000)
    assert run.throughput > 10_000


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("P", [[0.5, 0.4], [1, 0]]),
        ("P", np.zeros((0, 2, 2))),
        ("C", [[-1, 0], [1, 0]]),
        ("L", [[0.01], [-1]]),
        ("N", 0),
        ("N", 2**20 + 1),
        ("B", (3, 3)),
        ("tokens", 0),
        ("tokens", 10**13),
        ("seed", -1),
        ("seed", 2**64),
        ("turns", "newest"),
        ("extend", -1.0),
        ("extend", float("nan")),
        ("extend", [0.0, 0.0, 0.0]),
        ("extend", "none"),
    ],
)
def test_what_is_wrong_is_named(name: str, value: object) -> None:
    good: dict[str, Any] = {"P": r2r(), "C": R2R_TOKENS, "L": SECONDS, "N": 4, "B": (1, 2)}
    with pytest.raises(ValueError, match=rf"^{name}: "):
        simulate(**{**good, name: value})


def test_other_threads_go_on_meanwhile() -> None:
    def call() -> None:
        simulate(r2r(), R2R_TOKENS, SECONDS, 16, (2, 10), tokens=1_000_000)

    assert ticks_during(call) >= 10
