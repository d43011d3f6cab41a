"""What a router costs: time of its `route` a step, as a share of the small model's step.

The demo pair's small model decodes 1, 4 and 16 sequences; after each step the router decides on the
outputs, as in the decode loop. Steps and decisions are timed one by one, medians are compared. Also
measured: the step of an engine that shows that router what it needs against one that shows nothing
(`outputs`): llama.cpp then keeps hidden states, and embeddings are looked up.

Run ``python -m benchmarks.router_cost`` (a minute or two) or with ``--smoke``; ends with one JSON
object: `share_<algo>_<batch>` is route / step of the engine that shows nothing, and
`outputs_<algo>_<batch>` what showing the outputs adds to that step, as a share of it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from dataclasses import dataclass, field
from typing import Any

from trrouters import BaseRouter, Need, RouteResult
from trsched.engines.base import Engine
from trsched.engines.open_engine import open_engine
from trsched.plan.check import GroupPlan, check_group
from trsched.request import SamplingParams
from trserve.server.deployment import load_deployment

BATCHES = (1, 4, 16)
PRESETS = {
    "r2r": "smol-r2r",
    "citer": "smol-citer",
    "co_llm": "smol-co-llm",
    "r_stitch": "smol-rstitch",
    "me": "smol-me",
}
PROMPT = "Once upon a time there was a lighthouse on a rock in the sea, and "


@dataclass
class FakeRequest:
    """A request as `route` sees it."""

    seed: int
    origin_input_ids: list[int]
    output_ids: list[int] = field(default_factory=list)
    rid: int = 0
    threshold: float | None = None
    peer_locs: tuple[int, int] = (0, 0)
    peer: int = 0
    arrived_loc: int = 0

    def finished(self) -> bool:
        return False


def planned(preset: str) -> GroupPlan:
    flags = {"context": 512, "max_active": max(BATCHES)}
    return check_group(load_deployment(preset=preset, flags=flags).group)


def measure(
    engine: Engine, router: BaseRouter | None, prompt: list[int], batch: int, steps: int
) -> tuple[float, float]:
    """Median seconds of a step, and of the decision on it."""
    requests = [FakeRequest(seed, prompt) for seed in range(batch)]
    sampling = SamplingParams(temperature=0.8)
    seqs = [engine.start([*prompt, seed], sampling) for seed in range(batch)]
    reading = set(seqs)
    while reading:
        reading -= set(engine.step(sorted(reading)).seqs)
    for seq in seqs:
        engine.append(seq, [prompt[0]])
    times, decisions = [], []
    for turn in range(steps + steps // 4):
        began = time.perf_counter()
        result = engine.step(seqs)
        stepped = time.perf_counter()
        for request, seq, token in zip(requests, result.seqs, result.sampled.tolist(), strict=True):
            request.output_ids.append(token)
            engine.append(seq, [token])
        ready = time.perf_counter()
        if router is not None:
            router.route(RouteResult(requests, result.next_token_ids, result.logits_output))
        decided = time.perf_counter()
        if turn >= steps // 4:  # the others warm up
            times.append(stepped - began)
            decisions.append(decided - ready)
    for seq in seqs:
        engine.release(seq)
    return statistics.median(times), statistics.median(decisions)


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--smoke", action="store_true", help="small sizes, about a minute")
    args = parser.parse_args()
    steps, rounds = (24, 1) if args.smoke else (80, 3)
    plans = {name: planned(preset) for name, preset in PRESETS.items()}
    facts = {"steps": steps, "rounds": rounds, "cores": os.cpu_count()}
    routers = {name: str(plan.config.router) for name, plan in plans.items()}
    print(json.dumps({**facts, "models": str(plans["r2r"].config.models[0]), "routers": routers}))

    vocabulary = plans["r2r"].vocabularies[0]
    prompt = vocabulary.encode(PROMPT, special=False)
    engines: dict[frozenset[Need], Engine] = {}
    for plan in plans.values():
        for needs in (frozenset[Need](), plan.routers[0].needs):
            if needs not in engines:
                engines[needs] = open_engine(plan, 0, lambda line: None, needs)

    samples: dict[tuple[str, int], list[tuple[float, float, float]]] = {}
    for turn in range(rounds):
        for batch in BATCHES:
            for name, plan in plans.items():
                print(f"round {turn + 1}: {name}, batch {batch}", file=sys.stderr)
                plain, _ = measure(engines[frozenset()], None, prompt, batch, steps)
                router = plan.routers[0]
                step, route = measure(engines[router.needs], router, prompt, batch, steps)
                samples.setdefault((name, batch), []).append((plain, step, route))
    for engine in engines.values():
        engine.close()

    result: dict[str, Any] = {}
    print(f"{'router':10}{'batch':>6}{'step ms':>10}{'route ms':>10}{'share':>8}{'outputs':>9}")
    for (name, batch), rows in samples.items():
        plain, step, route = (statistics.median(column) for column in zip(*rows, strict=True))
        share = statistics.median(row[2] / row[0] for row in rows)
        outputs = statistics.median(row[1] / row[0] for row in rows) - 1
        result[f"share_{name}_{batch}"] = share
        result[f"outputs_{name}_{batch}"] = outputs
        result[f"route_ms_{name}_{batch}"] = route * 1e3
        print(
            f"{name:10}{batch:6}{plain * 1e3:10.2f}{route * 1e3:10.3f}{share:8.1%}{outputs:+9.1%}"
        )
    rounded = {key: round(value, 5) for key, value in result.items()}
    print(json.dumps({"benchmark": "router_cost", **facts, **rounded}))


if __name__ == "__main__":
    main()
