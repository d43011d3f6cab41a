"""What delayed batching's optimum costs: all feasible thresholds for N = 2, 4, 8 and 16 requests.

The reference pair (R2R, steps of 6.0 and 27.9 ms, p = 0.35, quantum 0.1 ms; TokenRouter, arXiv
2610.12242): `trcore.best_thresholds`, on one core, against the same chains in Python and
scipy.sparse (`benchmarks.parts.python_chain`), which must find the same; and how fast
`trcore.simulate` goes, whose throughput must lie within its confidence interval of the chain's.

Run ``python -m benchmarks.dtmc`` or with ``--smoke``, where Python stops at N = 8. Ends with one
JSON object: `table_seconds` and `python_seconds` are for N up to 16 and up to `python_requests`,
`table_seconds_as_python` is ours up to the latter.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from typing import Any

import trcore
from benchmarks.parts.python_chain import PythonChain

REQUESTS = (2, 4, 8, 16)
P = 0.35
ROUTING = [[1 - P, P], [1.0, 0.0]]
TOKENS = [[1.0, 0.0], [1.0, 0.0]]
SECONDS = [[0.006], [0.0279]]
QUANTUM = 1e-4
SAME = 1e-7  # relative
SIMULATED = (8, (1, 5))
HALF_WIDTHS = 2.0  # 99.9 % of runs are nearer


def table(rounds: int) -> tuple[list[trcore.BestThresholds], list[float]]:
    """The best thresholds for each N, and the median seconds that each took."""
    best = [trcore.best_thresholds(ROUTING, TOKENS, SECONDS, n, quantum=QUANTUM) for n in REQUESTS]
    seconds = []
    for n in REQUESTS:
        samples = []
        for _ in range(rounds):
            began = time.perf_counter()
            trcore.best_thresholds(ROUTING, TOKENS, SECONDS, n, quantum=QUANTUM)
            samples.append(time.perf_counter() - began)
        seconds.append(statistics.median(samples))
    return best, seconds


def python_table(requests: list[int]) -> tuple[list[tuple[tuple[int, ...], float]], list[float]]:
    """The same in Python: thresholds and tokens a second for each N, and the seconds, once."""
    quanta = [round(of[0] / QUANTUM) for of in SECONDS]
    PythonChain(ROUTING, TOKENS, quanta, 2).best()  # scipy loads parts of itself when first used
    found, seconds = [], []
    for n in requests:
        began = time.perf_counter()
        thresholds, throughput, _ = PythonChain(ROUTING, TOKENS, quanta, n).best()
        seconds.append(time.perf_counter() - began)
        found.append((thresholds, throughput / QUANTUM))
    return found, seconds


def simulation(tokens: int, rounds: int) -> tuple[trcore.Simulated, float]:
    """A run for the best thresholds of N = 8, and the median steps of requests a second."""
    requests, thresholds = SIMULATED
    speeds = []
    for _ in range(rounds):
        began = time.perf_counter()
        run = trcore.simulate(ROUTING, TOKENS, SECONDS, requests, thresholds, tokens=tokens)
        # the run warms up with 1/8 as many
        speeds.append(run.steps * 9 / 8 / (time.perf_counter() - began))
    return run, statistics.median(speeds)


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--smoke", action="store_true", help="small sizes, a few seconds")
    args = parser.parse_args()
    rounds, tokens = (3, 500_000) if args.smoke else (11, 5_000_000)
    in_python = list(REQUESTS[:-1] if args.smoke else REQUESTS)
    facts = {"rounds": rounds, "python_requests": in_python[-1], "cores": os.cpu_count()}
    print(json.dumps({**facts, "P": ROUTING, "L": SECONDS, "quantum": QUANTUM}))

    best, seconds = table(rounds)
    expected, python_seconds = python_table(in_python)
    difference = 0.0
    for ours, (thresholds, throughput) in zip(best, expected, strict=False):
        difference = max(difference, abs(ours.throughput / throughput - 1))
        if ours.thresholds != thresholds or difference > SAME:
            raise SystemExit(f"trcore found {ours}, Python {thresholds}: {throughput}")
    run, speed = simulation(tokens, rounds)
    requests, thresholds = SIMULATED
    chain = trcore.solve(ROUTING, TOKENS, SECONDS, requests, thresholds, quantum=QUANTUM)
    half_widths = abs(run.throughput - chain.throughput) / run.half_width
    if half_widths > HALF_WIDTHS:
        raise SystemExit(f"the chain has {chain}, the simulation {run}")

    print(
        f"{'N':>4}{'B':>6}{'states':>8}  {'B*':9}{'tok/s':>8}{'gain':>8}{'ms':>9}{'Python ms':>11}"
    )
    for at, (n, ours) in enumerate(zip(REQUESTS, best, strict=True)):
        candidates = ours.candidates[1]
        gain = ours.throughput / candidates[0] - 1  # the first is (1, 1)
        slow = f"{python_seconds[at] * 1e3:11.1f}" if at < len(python_seconds) else f"{'–':>11}"
        print(
            f"{n:4}{len(candidates):6}{ours.largest_chain:8}  {ours.thresholds!s:9}"
            f"{ours.throughput:8.1f}{gain:8.1%}{seconds[at] * 1e3:9.2f}{slow}"
        )
    simulated = f"{run.throughput:.2f} ± {run.half_width:.2f} tok/s"
    print(f"simulation for N = {requests}, {thresholds}: {simulated}, {speed / 1e6:.0f} M steps/s")
    result: dict[str, Any] = {
        "table_seconds": round(sum(seconds), 5),
        "python_seconds": round(sum(python_seconds), 4),
        "table_seconds_as_python": round(sum(seconds[: len(in_python)]), 5),
        "simulation_steps_per_s": round(speed),
        "python_difference": difference,
        "simulation_difference_half_widths": round(half_widths, 3),
        "thresholds": [ours.thresholds for ours in best],
        "throughput": [round(ours.throughput, 4) for ours in best],
    }
    print(json.dumps({"benchmark": "dtmc", **facts, **result}))


if __name__ == "__main__":
    main()
