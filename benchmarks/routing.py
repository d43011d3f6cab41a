"""How fast is a routed pair of models behind our server, and behind what there is otherwise?

Systems × five algorithms × three workloads, on two engines: latency profiles with the article's
step times (6.0 and 27.9 ms), and the demo pair on llama.cpp; where it is installed also on SGLang
(`--engine sglang`), two models of random weights against two unmodified SGLang servers. Every
system is a server of its own process over HTTP (`std-serving` two of them), under the same requests
from the same clients:

- ours (`delayed`: all of it), and ours without a part: `eager`, `readmit`, `lockstep`;
- `official`, one request after another; `std-serving`, two ordinary servers, driven along the paths
  that ours took; `speculative`, llama.cpp's draft decoding; `llm-only` and `slm-only`.

At four clients everything; R2R on low-effort also from 1 to 16 clients, and with Poisson arrivals.
On the real engine the models share all cores and take turns; nothing is pinned, each server has its
own threads (see the configurations), and no two systems are under load at once.

Run ``python -m benchmarks.routing`` (the profile engine alone: twenty minutes) or with ``--smoke``
(R2R alone); `--engine`, `--algorithms`, `--workloads`, `--clients`, `--trace`, ... choose parts.
Writes `results/routing.records.json` and the report; ends with one JSON object: see
`benchmarks.report.headline`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.load.workload import WORKLOADS
from benchmarks.report.cost_model import PairCosts
from benchmarks.report.headline import headline
from benchmarks.report.load_figures import LoadFigures
from benchmarks.report.names import ALGORITHMS, ENGINES, OURS
from benchmarks.report.records import RoutingRecords, StepBreakdown, save, with_earlier
from benchmarks.report.report import write_report
from benchmarks.runs.bare_step import bare_steps
from benchmarks.runs.baseline_servers import THREADS
from benchmarks.runs.pairs import Pair, profile_pair, real_costs, real_pair, sglang_pair
from benchmarks.runs.routing_runs import RoutingRuns, Scope
from trsched.errors import ConfigError

CURVE = (1, 2, 4, 8, 16)
NOTE = (
    "Profile engine: what a step ingests beyond one token costs nothing, in any system, so prompt "
    "caches are perfect and free; `readmit` is measured on the real engine, where it costs. "
    "`std-serving` gets its decisions for nothing: it repeats the path that ours took."
)

BARE_NOTE = (
    "The llama.cpp of `std-serving` and `speculative` is prebuilt for any CPU with AVX2, ours for "
    "this machine. The time of its bare step over our engine's, both with one thread, by model and "
    "batch (what a ratio of throughputs can owe to that, at most): "
)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--smoke", action="store_true", help="R2R alone, a minute or two")
    parser.add_argument("--engine", choices=(*ENGINES, "both"), default="both")
    parser.add_argument("--algorithms", nargs="+", choices=list(ALGORITHMS))
    parser.add_argument("--workloads", nargs="+", choices=list(WORKLOADS))
    parser.add_argument(
        "--scale",
        type=float,
        help="lengths, times this [default: 1 on profiles, 1/8 on SGLang, else 1/32]",
    )
    parser.add_argument(
        "--stretch",
        type=int,
        help="tokens of a response to measure, 0: all [default: 64, real engine: 0]",
    )
    parser.add_argument(
        "--clients", nargs="+", type=int, help="of the curve  [default: 1 2 4 8 16]"
    )
    parser.add_argument(
        "--trace", type=Path, help="a trace (Azure's CSV, Mooncake's JSON lines) for arrivals"
    )
    return parser.parse_args()


def pairs(engine: str, folder: Path) -> list[Pair]:
    """folder: for what has to be made first."""
    found = [profile_pair()] if engine in ("profile", "both") else []
    if engine == "sglang":
        found.append(sglang_pair(folder))
    if engine in ("real", "both"):
        try:
            found.append(real_pair())
        except ConfigError as error:
            if engine == "real":
                raise SystemExit(f"the demo pair cannot be served: {error}") from error
            print(f"without the real engine: {error}")
    return found


def scope(args: argparse.Namespace, engine: str) -> Scope:
    smoke, sglang = args.smoke, engine == "sglang"
    scale, stretch = {
        "profile": (1.0, 16 if smoke else 64),
        "real": (1 / 64 if smoke else 1 / 32, 0),
        "sglang": (1 / 8, 24 if smoke else 64),
    }[engine]
    return Scope(
        algorithms=tuple(args.algorithms or (ALGORITHMS if sglang or not smoke else ["r2r"])),
        workloads=tuple(args.workloads or (["low-effort"] if smoke else WORKLOADS)),
        scale=args.scale or scale,
        stretch=(stretch if args.stretch is None else args.stretch) or None,
        curve=tuple(args.clients or (((4, 8) if sglang else (1, 16)) if smoke else CURVE)),
        items_per_client=2 if smoke else 4,
        open_loop=not smoke,
        trace=args.trace,
        systems=(OURS,) if sglang and smoke else None,
    )


def main() -> None:
    """Measure and report."""
    args = arguments()
    measured: list[LoadFigures] = []
    steps: list[StepBreakdown] = []
    costs: dict[str, PairCosts] = {}
    bare: dict[str, float] = {}
    with TemporaryDirectory() as folder:
        for pair in pairs(args.engine, Path(folder)):
            here = scope(args, pair.engine)
            print(f"{pair.engine}: {here}")
            runs = RoutingRuns(pair, here)
            asyncio.run(runs.all())
            measured += runs.measured
            steps += runs.steps
            if pair.costs is not None:
                costs[pair.engine] = pair.costs
            if pair.engine == "real" and not args.smoke:
                costs["real"] = real_costs(CURVE)
                bare = bare_ratios(pair)
    notes = [NOTE, *([BARE_NOTE + json.dumps(bare)] if bare else [])]
    new = RoutingRecords(measured=measured, steps=steps, costs=costs, notes=notes)
    save(with_earlier(new, {each.setting.engine for each in measured}))
    print(f"report: {write_report()}")
    print(json.dumps({"benchmark": "routing", **headline(measured), **bare}))


def bare_ratios(pair: Pair) -> dict[str, float]:
    """`real_bare_step_<model>_<batch>`: a step of the other llama.cpp over one of ours."""
    return {
        f"real_bare_step_{model['name']}_{batch}": round(found["ratio"], 3)
        for model in pair.models
        for batch, found in bare_steps(model, threads=THREADS).items()
    }


if __name__ == "__main__":
    main()
