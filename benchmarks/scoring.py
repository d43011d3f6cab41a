"""What one assignment costs: `trcore.assign`, microseconds per request, against the same in NumPy.

13, 100 and 500 instances of four models, all open, in batches of 1, 8 and 32 requests, LPT on,
equal weights. A call is timed whole, from Python: checks, the copy of the view, scoring and
choosing; predictions exist already. Both ways must choose the same instances. RouteBalance (arXiv
2606.17949) gives its scoring loop as 12.8, 14.3 and 22.5 µs.

Run ``python -m benchmarks.scoring`` or with ``--smoke``. Ends with one JSON object: in batches of 8
`us_<instances>` per request, `numpy_ratio_<instances>` how many times as long NumPy takes,
`slope_ns` what one instance more costs a request, between 100 and 500, and `floor_us` what is left
at none; `us` and `numpy_us` by instances and batch.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import trcore
from benchmarks.parts.numpy_assign import NumpyAssign

INSTANCES = (13, 100, 500)
BATCHES = (1, 8, 32)
USUAL = 8
SAMPLE_S = 0.001
MODELS = 4
WEIGHTS = (1 / 3, 1 / 3, 1 / 3)
PRICES = (0.06, 0.07, 0.15, 0.38)  # USD per 1M tokens; these and TPOT: the article's four tiers
TPOT_S = (0.0123, 0.0206, 0.0184, 0.0474)
PAPER_US = {13: 12.8, 100: 14.3, 500: 22.5}

Array = NDArray[Any]


def cluster(instances: int, rng: np.random.Generator) -> trcore.InstanceView:
    """A pool under load: some instances have free slots, some a queue."""
    view = trcore.InstanceView(instances)
    tier = np.arange(instances) % MODELS
    view.model[:] = tier
    view.input_price[:] = view.output_price[:] = np.array(PRICES)[tier]
    view.prior_tpot_s[:] = np.array(TPOT_S)[tier]
    view.tpot_s[:] = view.prior_tpot_s * rng.uniform(0.8, 1.5, instances)
    view.prefill_rate[:] = 4000.0
    view.slots[:] = 16
    view.running[:] = rng.integers(0, 17, instances)
    view.waiting[:] = np.where(view.running == 16, rng.integers(0, 6, instances), 0)
    view.pending_decode[:] = rng.integers(50, 200, instances) * (view.running + view.waiting)
    view.pending_prefill[:] = 200 * view.waiting
    view.healthy[:] = True
    view.context_window[:] = 32768
    return view


def requests(batch: int, rng: np.random.Generator) -> tuple[Array, Array, Array, Array]:
    """Prompt and most tokens, quality and length by model."""
    return (
        rng.integers(20, 800, batch).astype(np.int32),
        np.full(batch, 1024, np.int32),
        rng.uniform(0.2, 0.9, (batch, MODELS)).astype(np.float32),
        rng.uniform(30, 600, (batch, MODELS)).astype(np.float32),
    )


def microseconds(call: Callable[[], object], batch: int, seconds: float) -> list[float]:
    """Per request, in samples too short for another process to come between in most of them."""
    samples = []
    for _ in range(20):
        call()
    calls, until = 1, time.perf_counter() + seconds
    while (began := time.perf_counter()) < until:
        for _ in range(calls):
            call()
        took = time.perf_counter() - began
        samples.append(took / calls / batch * 1e6)
        if took < SAMPLE_S / 2:
            calls *= 2
            samples.clear()
    return samples


def measure(instances: int, batch: int, seconds: float, rounds: int) -> tuple[float, float]:
    """Medians for the core and for NumPy, in turn."""
    rng = np.random.default_rng(1000 * instances + batch)
    view, asked = cluster(instances, rng), requests(batch, rng)
    rules = trcore.AssignRules([0.5] * MODELS, [200.0] * MODELS)
    in_numpy = NumpyAssign(view)
    chosen, tokens = np.empty((2, batch), np.int32)
    expected, expected_tokens = np.empty((2, batch), np.int32)

    def core() -> None:
        trcore.assign(view, rules, WEIGHTS, *asked, chosen, tokens, commit=False)

    def plain() -> None:
        in_numpy(WEIGHTS, *asked, expected, expected_tokens)

    core()
    plain()
    if chosen.tolist() != expected.tolist() or tokens.tolist() != expected_tokens.tolist():
        raise SystemExit(f"{instances} instances: trcore chose {chosen}, NumPy {expected}")
    ours, theirs = [], []
    for _ in range(rounds):
        ours += microseconds(core, batch, seconds / rounds)
        theirs += microseconds(plain, batch, seconds / rounds)
    return statistics.median(ours), statistics.median(theirs)


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--smoke", action="store_true", help="small sizes, a few seconds")
    args = parser.parse_args()
    seconds, rounds = (0.2, 2) if args.smoke else (1.5, 5)
    facts = {"rounds": rounds, "models": MODELS, "cores": os.cpu_count(), "paper_us": PAPER_US}
    print(json.dumps(facts))

    ours: dict[int, dict[int, float]] = {}
    theirs: dict[int, dict[int, float]] = {}
    print(f"{'instances':>9}{'batch':>7}{'µs/request':>12}{'NumPy':>9}{'ratio':>8}{'article':>9}")
    for instances in INSTANCES:
        ours[instances], theirs[instances] = {}, {}
        for batch in BATCHES:
            mine, numpys = measure(instances, batch, seconds, rounds)
            ours[instances][batch] = round(mine, 3)
            theirs[instances][batch] = round(numpys, 2)
            print(
                f"{instances:9}{batch:7}{mine:12.3f}{numpys:9.2f}{numpys / mine:7.0f}x"
                f"{PAPER_US[instances]:9.1f}"
            )
    usual = {i: ours[i][USUAL] for i in INSTANCES}
    slope = (usual[500] - usual[100]) / 400
    result = {
        **{f"us_{i}": us for i, us in usual.items()},
        **{f"numpy_ratio_{i}": round(theirs[i][USUAL] / usual[i], 1) for i in INSTANCES},
        "slope_ns": round(slope * 1e3, 3),
        "floor_us": round(usual[100] - 100 * slope, 3),
        "us": ours,
        "numpy_us": theirs,
    }
    print(json.dumps({"benchmark": "scoring", **facts, **result}))


if __name__ == "__main__":
    main()
