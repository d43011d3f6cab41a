"""RouteBalance on the article's 13 instances, simulated: latency over load, quality, ablations.

One workload for all at a rate (arXiv 2606.17949: λ = 6–30 requests a second, Poisson). Labels are
of the pool that the output names, not the article's, so latencies compare with the article's and
qualities do not. BEST-Route is scored serially as published and concurrently ("enhanced"); its
operating point is the largest threshold. The quality gain is over the best point of any baseline
that, like ours, stays within 5.9 s at λ = 12: ours is chosen on one half of the prompts, theirs and
the difference are of the other half. Unbounded by time, always asking the largest model is hard to
beat on such a pool, so that difference is given too.

Run ``python -m benchmarks.cluster`` or with ``--smoke``. Ends with one JSON object.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._cluster_pool import NamedPool, open_pool
from rbalance.batching import BatchLimits, FixedSizing
from rbalance.bootstrap import mean_interval
from rbalance.cluster import article_cluster
from rbalance.policies.registry import open_policy
from rbalance.policies.route_balance import RouteBalance
from rbalance.simulator.arrivals import poisson, stepped
from rbalance.simulator.hungarian import HungarianReplay
from rbalance.simulator.outcome import Outcome
from rbalance.simulator.point import Point, ingredients, run_point
from rbalance.simulator.scheduler import DEPLOYMENTS, Scheduler
from rbalance.simulator.simulation import Control, Simulation
from rbalance.slo_controller import SloSettings
from rbalance.tpot.heads import TpotHeads, fit_heads
from rbalance.weights import PRESETS

UNIFORM = "route-balance:weights=uniform"
CEILING_S = 5.9
WEIGHTS = ("0.6/0.1/0.3", "0.7/0.1/0.2", "0.8/0.1/0.1", "0.7/0/0.3", "0.8/0/0.2", "0.85/0/0.15")
BASELINES = (
    *(f"avengers-pro:p_w={weight}" for weight in (0.25, 0.39, 0.53, 0.7, 0.8)),
    *(f"best-route:threshold={threshold}" for threshold in (0.3, 0.5, 0.6, 0.7, 0.75, 0.8)),
    *(f"route-llm:strong_share={share}" for share in (0.2, 0.4, 0.5, 0.6, 0.8)),
    "semantic-router:tolerance=0.05",
    "tabi:trust=0.5",
    "cocktail:target=0.5",
    "infaas:accuracy=0.42,latency_s=6",
    "shortest-queue",
    "round-robin",
)
QPS_SWEEP = (2, 8, 16, 24, 32)


class Runs:
    """Runs points of one pool, once each, and tells of them."""

    def __init__(self, named: NamedPool, requests: int) -> None:
        self.pool = named.pool
        self.cluster = article_cluster(named.pool.models)
        self.requests = requests
        self._known: dict[Point, Outcome] = {}

    def run(
        self, policy: str, rate: float, deployment: str = "", heads: TpotHeads | None = None
    ) -> Outcome:
        point = Point(policy=policy, rate=rate, requests=self.requests, deployment=deployment)
        if point not in self._known:
            self._known[point] = outcome = run_point(point, self.pool, heads)
            tell(f"λ={rate:<3g} {policy} {deployment}", outcome)
        return self._known[point]

    def simulate(self, policy: str, rate: float, scheduler: Scheduler, **more: Any) -> Outcome:
        """With a scheduler of its own; not kept."""
        made = open_policy(policy, ingredients(self.pool, self.cluster))
        workload = self.pool.workload(poisson(rate, self.requests, 0), self.cluster)
        return Simulation(self.cluster, workload, [made], scheduler, **more).run()


def tell(name: str, outcome: Outcome) -> None:
    of = outcome.summary()
    print(
        f"{name:58}{of.e2e_s:8.2f}{of.e2e_p99_s:8.1f}{of.residual_s * 1e3:9.0f}{of.quality:8.3f}"
        f"{of.usd * 1e5:8.2f}{of.throughput:7.1f}{of.mean_batch:6.1f}",
        flush=True,
    )


def over_load(runs: Runs, rates: tuple[float, ...]) -> dict[str, Any]:
    """Latency over λ: uniform against BEST-Route, serial and enhanced."""
    uniform = {rate: runs.run(UNIFORM, rate).summary() for rate in rates}
    operating = "best-route:threshold=0.8"
    top = rates[-1]
    serial = runs.run(operating, top, "serial").summary()
    enhanced = {rate: runs.run(operating, rate).summary() for rate in rates[-2:]}
    as_good = [
        found.e2e_s
        for weights in WEIGHTS
        if (found := runs.run(f"route-balance:weights={weights}", top).summary()).quality
        >= enhanced[top].quality
    ]
    return {
        "uniform_e2e_lambda6_s": uniform[rates[0]].e2e_s,
        "uniform_e2e_lambda30_s": uniform[top].e2e_s,
        "flatness": uniform[top].e2e_s / uniform[rates[0]].e2e_s,
        "uniform_residual_ms": {rate: of.residual_s * 1e3 for rate, of in uniform.items()},
        "bestroute_serial_lambda30_s": serial.e2e_s,
        "bestroute_enhanced_lambda30_s": enhanced[top].e2e_s,
        "bestroute_enhanced_ratio_30": enhanced[top].e2e_s / uniform[top].e2e_s,
        "bestroute_enhanced_ratio_30_same_quality": (
            enhanced[top].e2e_s / min(as_good) if as_good else None
        ),
    }


def quality(runs: Runs, baselines: tuple[str, ...]) -> dict[str, Any]:
    """The best quality within CEILING_S at λ = 12, ours over any baseline's."""
    rate = 12
    row = runs.pool.workload(poisson(rate, runs.requests, 0), runs.cluster).row
    choosing = row % 2 == 0
    ours = {each: runs.run(f"route-balance:weights={each}", rate) for each in WEIGHTS}
    theirs = {each: runs.run(each, rate) for each in baselines}
    always = runs.run(f"passthrough:model={runs.pool.models[-1]}", rate)

    def best(found: dict[str, Outcome], of: np.ndarray[Any, Any]) -> str:
        in_time = {name: each for name, each in found.items() if each.e2e.mean() <= CEILING_S}
        return max(in_time, key=lambda name: float(in_time[name].quality[of].mean()))

    mine, other = best(ours, choosing), best(theirs, ~choosing)
    gain = mean_interval((ours[mine].quality - theirs[other].quality)[~choosing])
    behind = mean_interval((ours[mine].quality - always.quality)[~choosing])
    print(f"within {CEILING_S} s at λ = 12: {mine} against {other}: {gain}")
    return {
        "quality_gain_over_best_baseline": gain.mean,
        "quality_gain_interval": [gain.low, gain.high],
        "quality_gain_of": [f"route-balance:weights={mine}", other],
        "quality_against_always_largest": [behind.mean, behind.low, behind.high],
        "always_largest_e2e_s": always.summary().e2e_s,
    }


def hungarian(runs: Runs, rate: float) -> dict[str, Any]:
    """Greedy LPT against a matching of the same batches, at a load that makes batches."""
    policy = open_policy(UNIFORM, ingredients(runs.pool, runs.cluster))
    assert isinstance(policy, RouteBalance)
    workload = runs.pool.workload(poisson(rate, runs.requests, 0), runs.cluster)
    replay = HungarianReplay(policy, workload)
    sized = replace(DEPLOYMENTS["batched"], sizing=FixedSizing(BatchLimits(8, 0.2)))
    Simulation(runs.cluster, workload, [policy], sized, decided=replay.watch).run()
    found = replay.agreement()
    print(f"Hungarian at λ = {rate:g}: {found}")
    return {
        "hungarian_diff_share": found.instance_differs,
        "hungarian_model_diff_share": found.model_differs,
        "hungarian_quality_delta": found.quality_delta,
        "hungarian_quality_interval": [found.quality_low, found.quality_high],
    }


def tpot(runs: Runs, rates: tuple[float, ...]) -> dict[str, Any]:
    """Static prior, learned heads, and what instances did lately."""
    rows = []
    for qps in QPS_SWEEP:
        made = open_policy("round-robin", ingredients(runs.pool, runs.cluster))
        workload = runs.pool.workload(poisson(qps, runs.requests // 2, qps), runs.cluster)
        sweep = Simulation(runs.cluster, workload, [made], DEPLOYMENTS["instant"], record_tpot=True)
        rows += sweep.run().tpot_rows
    heads = fit_heads(rows)
    found: dict[str, dict[str, float]] = {}
    for rate in rates:
        found[str(rate)] = {
            kind: runs.run(f"route-balance:weights=latency,tpot={kind}", rate, "", heads)
            .summary()
            .e2e_s
            for kind in ("static", "xgboost", "online")
        }
    middle = found[str(rates[0])]
    return {"static_vs_xgboost_tpot": middle["static"] / middle["xgboost"], "tpot_e2e_s": found}


def ablations(runs: Runs, rate: float) -> dict[str, Any]:
    """Each as a ratio of its mean E2E to the whole system's: above 1, the part helps."""
    whole = runs.run(UNIFORM, rate).summary().e2e_s
    batched = DEPLOYMENTS["batched"]
    fixed = {
        f"fixed_{size}": runs.simulate(
            UNIFORM, rate, replace(batched, sizing=FixedSizing(BatchLimits(size, 0.1)))
        )
        for size in (1, 4, 8, 16, 32)
    }
    for name, outcome in fixed.items():
        tell(f"λ={rate:<3g} {name}", outcome)
    found = {name: outcome.summary().e2e_s / whole for name, outcome in fixed.items()}
    found["lpt_off"] = runs.run(f"{UNIFORM},order=arrival", rate).summary().e2e_s / whole
    for dispatch in ("shortest-queue", "round-robin"):
        split = runs.run(f"decoupled:weights=uniform,dispatch={dispatch}", rate)
        found[f"decoupled_{dispatch}"] = split.summary().e2e_s / whole
    return {"ablation_e2e_ratio": found}


def slo(runs: Runs, scale: float) -> dict[str, Any]:
    """A load step, with fixed weights and with the controller."""
    load = stepped([(4, 60 * scale), (24, 120 * scale), (4, 60 * scale)], seed=1)
    workload = runs.pool.workload(load, runs.cluster)
    step = (load > 90 * scale) & (load < 180 * scale)
    made_of = ingredients(runs.pool, runs.cluster)
    found: dict[str, Any] = {}
    for name in ("fixed", "controlled"):
        policy = open_policy("route-balance:weights=quality", made_of)
        assert isinstance(policy, RouteBalance)
        target = found["fixed"]["e2e_s"] * 0.6 if found else math.inf
        control = None
        if found:
            settings = SloSettings(target_s=target, base=PRESETS["quality"])
            control = Control(settings=settings, policy=policy)
        outcome = Simulation(
            runs.cluster, workload, [policy], DEPLOYMENTS["batched"], control=control
        ).run()
        found[name] = {
            "e2e_s": float(outcome.e2e[step].mean()),
            "quality": float(outcome.quality[step].mean()),
        }
        if control:
            found["target_s"] = target
            found["largest_share"] = max(share for _, share in outcome.slo_shares)
            found["last_share"] = outcome.slo_shares[-1][1]
    print(f"SLO under a load step: {found}")
    return {"slo_step": found}


def speed(runs: Runs, sizes: tuple[int, ...]) -> dict[str, Any]:
    """Simulated requests a second of wall clock, at the same load per instance."""
    found = {}
    for size in sizes:
        point = Point(policy=UNIFORM, rate=30 * size / 13, requests=runs.requests, instances=size)
        began = time.perf_counter()
        outcome = run_point(point, runs.pool)
        found[size] = round(runs.requests / (time.perf_counter() - began))
        tell(f"{size} instances, {found[size]} requests simulated a second", outcome)
    return {"simulated_requests_per_s": found}


def rounded(value: Any) -> Any:
    """Four decimals, whatever the nesting."""
    if isinstance(value, dict):
        return {str(key): rounded(each) for key, each in value.items()}
    if isinstance(value, list):
        return [rounded(each) for each in value]
    return round(value, 4) if isinstance(value, float) else value


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--smoke", action="store_true", help="small sizes, under a minute")
    parser.add_argument("--data", type=Path, help="labelled prompts with the four-tier pool")
    parser.add_argument("--requests", type=int, help="in each run [default: 4800, smoke 200]")
    args = parser.parse_args()
    named = open_pool(args.data, args.smoke)
    runs = Runs(named, args.requests or (200 if args.smoke else 4800))
    pool = named.pool
    print(
        f"{named.name}: {len(pool.prompt)} held-out prompts, {len(pool.train_prompt)} learned; "
        f"{runs.requests} requests a run"
    )
    for model, score, tokens in zip(
        pool.models, pool.quality.mean(axis=0), pool.length.mean(axis=0), strict=True
    ):
        print(f"  {model:30} quality {score:.3f}  {tokens:6.0f} tokens")
    columns = ("E2E s", "p99 s", "resid ms", "quality", "1e-5 $", "req/s", "batch")
    print(f"{'':58}" + "".join(f"{name:>{8 if at < 5 else 6}}" for at, name in enumerate(columns)))
    rates = (6.0, 24.0, 30.0) if args.smoke else (6.0, 12.0, 18.0, 24.0, 30.0)
    result = {
        **over_load(runs, rates),
        **quality(runs, BASELINES[::4] if args.smoke else BASELINES),
        **hungarian(runs, 30),
        **tpot(runs, (18.0,) if args.smoke else (18.0, 120.0)),
        **ablations(runs, 30),
        **slo(runs, 0.1 if args.smoke else 1.0),
        **speed(runs, (13, 100) if args.smoke else (13, 100, 500)),
    }
    facts = {"pool": named.name, "prompts": len(pool.prompt), "requests": runs.requests}
    print(json.dumps({"benchmark": "cluster", **facts, **rounded(result)}))


if __name__ == "__main__":
    main()
