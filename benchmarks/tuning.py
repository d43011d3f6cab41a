"""Does delayed batching find its optimum while serving, and does it follow when things change?

On latency profiles (6.0 and 27.9 ms, the article's), in real time, the scheduler alone.

- `optimum`: at N = 2, 4, 8, 16 the thresholds that the Markov model predicts to be best are
  measured beside others: their neighbours, eager (1,1) and what the live tuner does.
- `shift`: p moves from 0.35 to 0.02 under load; the tuned group, which has to notice, against the
  best fixed thresholds of each phase (the best measured among the predicted best and neighbours).
- `cases`: visits of a fixed length (not geometric), three models, a load that changes every second;
  each tuned against the best of several fixed thresholds.

Run ``python -m benchmarks.tuning`` (ten minutes or so) or with ``--smoke`` (N = 8, a minute). Ends
with one JSON object: `optimum_gap_N` is how much slower the predicted optimum is than the best
measured (0: it is the best), `tuned_gap_N` the same for the tuner, `shift_cost_high` and
`shift_cost_low` what tuning costs in each phase, `case_cost_*` likewise.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Sequence
from typing import Any

import trcore
from benchmarks.parts.endless_group import configuration, endless_group
from trsched.tuning.routing_flow import one_token_visits

STEP_MS = (6.0, 27.9)
HIGH, LOW = 0.35, 0.02
WARM_UP_S = 1.5

Thresholds = tuple[int, ...]


def bernoulli(p: float, tokens_per_call: int = 1) -> dict[str, Any]:
    return {"name": "bernoulli", "settings": {"p": p, "tokens_per_call": tokens_per_call}}


def predict(p: float, n: int) -> tuple[Thresholds, dict[Thresholds, float]]:
    """The best thresholds, and every feasible ones' tokens a second."""
    seconds = [[ms * 1e-3] for ms in STEP_MS]
    flow = one_token_visits(p)
    best = trcore.best_thresholds(flow.routing, flow.committed, seconds, n, quantum=1e-4)
    table, speeds = best.candidates
    return tuple(best.thresholds), {
        tuple(int(b) for b in row): float(speed) for row, speed in zip(table, speeds, strict=True)
    }


def neighbours(best: Thresholds, n: int) -> list[Thresholds]:
    """`best`, those one step away that `n` requests cannot deadlock with, and eager."""
    near = [best]
    for i in range(len(best)):
        for step in (-1, 1):
            other = tuple(b + step * (i == j) for j, b in enumerate(best))
            if min(other) >= 1 and trcore.deadlock_free(other, n):
                near.append(other)
    eager = (1,) * len(best)
    return near if eager in near else [*near, eager]


def fixed(
    router: dict[str, Any],
    n: int,
    thresholds: Thresholds | None,
    seconds: float,
    step_ms: Sequence[float] = STEP_MS,
) -> float:
    """Tokens a second after a warm-up; thresholds None: tuned."""
    with endless_group(configuration(step_ms, router, thresholds, n)) as group:
        group.set_active(n)
        group.tokens_per_second(WARM_UP_S if thresholds else 4 * WARM_UP_S)
        return group.tokens_per_second(seconds)


def optimum(n: int, seconds: float, result: dict[str, Any]) -> None:
    best, predicted = predict(HIGH, n)
    print(f"\noptimum at N = {n}, p = {HIGH}: predicted {best}, {predicted[best]:.1f} tok/s")
    print(f"{'B':>10}{'predicted':>12}{'measured':>12}")
    measured = {}
    for thresholds in neighbours(best, n):
        measured[thresholds] = fixed(bernoulli(HIGH), n, thresholds, seconds)
        print(f"{thresholds!s:>10}{predicted[thresholds]:12.1f}{measured[thresholds]:12.1f}")
    tuned = fixed(bernoulli(HIGH), n, None, seconds)
    print(f"{'tuned':>10}{'':12}{tuned:12.1f}")
    fastest = max(measured.values())
    result[f"optimum_gap_{n}"] = 1 - measured[best] / fastest
    result[f"tuned_gap_{n}"] = 1 - tuned / fastest
    result[f"optimum_{n}"] = {
        "thresholds": best,
        "rows": [[*b, predicted[b], measured[b]] for b in measured],
    }


def shift(n: int, seconds: float, result: dict[str, Any]) -> None:
    print(f"\nshift at N = {n}: p {HIGH} -> {LOW}, {seconds:.0f} s each")
    best = {}
    for p in (HIGH, LOW):
        best[p] = 0.0
        for thresholds in neighbours(predict(p, n)[0], n):
            speed = fixed(bernoulli(p), n, thresholds, seconds / 2)
            print(f"  fixed {thresholds} at p = {p}: {speed:.1f} tok/s")
            best[p] = max(best[p], speed)
    with endless_group(configuration(STEP_MS, bernoulli(HIGH), None, n)) as group:
        group.set_active(n)
        group.tokens_per_second(WARM_UP_S)
        for p, phase in ((HIGH, "high"), (LOW, "low")):
            group.routers[0].p = p  # type: ignore[attr-defined]
            speed = group.tokens_per_second(seconds)
            tuning = group.tuning()
            assert tuning is not None
            result[f"shift_cost_{phase}"] = 1 - speed / best[p]
            print(
                f"  tuned at p = {p}: {speed:.1f} tok/s (best fixed {best[p]:.1f}), "
                f"then p̂ = {tuning.routing[0][1]:.3f}, B = {tuning.thresholds}"
            )


def case(
    name: str,
    step_ms: Sequence[float],
    router: dict[str, Any],
    n: int,
    rivals: Sequence[Thresholds],
    seconds: float,
    result: dict[str, Any],
) -> None:
    print(f"\n{name}: N = {n}, {router}, steps of {step_ms} ms")
    speeds = {}
    for thresholds in rivals:
        speeds[thresholds] = fixed(router, n, thresholds, seconds, step_ms)
        print(f"  fixed {thresholds}: {speeds[thresholds]:.1f} tok/s")
    tuned = fixed(router, n, None, seconds, step_ms)
    print(f"  tuned: {tuned:.1f} tok/s")
    result[f"case_cost_{name}"] = 1 - tuned / max(speeds.values())


def changing_load(seconds: float, result: dict[str, Any]) -> None:
    """N is drawn anew every second; fixed thresholds are lowered where N is small."""
    loads = random.Random(1).choices(range(2, 17), k=max(4, int(seconds)))
    print(f"\nchanging load: N = {loads}, a second each")
    speeds: dict[Thresholds | None, float] = {}
    for thresholds in ((1, 1), (1, 3), (1, 5), (2, 10), None):
        with endless_group(configuration(STEP_MS, bernoulli(HIGH), thresholds, 16)) as group:
            group.set_active(8)
            group.tokens_per_second(WARM_UP_S)
            total = 0.0
            for load in loads:
                group.set_active(load)
                total += group.tokens_per_second(1.0)
        speeds[thresholds] = total / len(loads)
        print(f"  {thresholds or 'tuned'}: {speeds[thresholds]:.1f} tok/s")
    tuned = speeds.pop(None)
    result["case_cost_changing_load"] = 1 - tuned / max(speeds.values())


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--smoke", action="store_true", help="N = 8 only, about a minute")
    args = parser.parse_args()
    sizes, seconds = ((8,), 3.0) if args.smoke else ((2, 4, 8, 16), 12.0)
    facts = {"step_ms": STEP_MS, "p": [HIGH, LOW], "seconds": seconds, "warm_up_s": WARM_UP_S}
    print(json.dumps(facts))
    result: dict[str, Any] = {}
    for n in sizes:
        optimum(n, seconds, result)
    shift(8 if args.smoke else 16, 2 * seconds, result)
    visits = [(1, 1), (1, 2), (1, 3), (1, 4), (2, 4)]
    few = 2 if args.smoke else len(visits)
    case("fixed_visits", STEP_MS, bernoulli(0.2, 4), 8, visits[:few], seconds, result)
    weights = {"name": "me", "settings": {"weights": [6, 3, 1]}}
    three = [(1, 1, 1), (2, 2, 2), (1, 2, 2), (1, 3, 2)]
    case("three_models", (6.0, 12.0, 27.9), weights, 8, three[:few], seconds, result)
    if not args.smoke:
        changing_load(2 * seconds, result)
    rounded = {k: round(v, 4) if isinstance(v, float) else v for k, v in result.items()}
    sys.stdout.flush()
    print(json.dumps({"benchmark": "tuning", **facts, **rounded}))


if __name__ == "__main__":
    main()
