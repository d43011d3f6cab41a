"""RouteBalance on the article's 13 instances, simulated: latency over load, quality, ablations.

One workload for all at a rate (arXiv 2606.17949: λ = 6–30 requests a second, Poisson). Labels are
of the pool that the output names, not the article's, so latencies compare with the article's and
qualities do not. BEST-Route is scored serially as published and concurrently ("enhanced"); its
operating point is the largest threshold. The quality gain is at equal latency: of our slowest point
within the article's 5.9 s, over the best that baselines reach in the same mean time, by one of
their points or by two, each for a share of the requests. Unbounded by time, always asking the
largest model is hard to beat on such a pool, so the difference to that is given too.

Run ``python -m benchmarks.cluster`` or with ``--smoke``. Ends with one JSON object.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.parts.cluster_pool import open_pool
from benchmarks.parts.cluster_runs import HEADING, Runs, tell
from rbalance.decide.batching import BatchLimits, FixedSizing
from rbalance.decide.slo_controller import SloSettings
from rbalance.labels.bootstrap import mean_interval
from rbalance.policies.policy import WeightedPolicy
from rbalance.policies.weights import PRESETS
from rbalance.simulator.arrivals import poisson, stepped
from rbalance.simulator.hungarian import HungarianReplay
from rbalance.simulator.outcome import SimulationOutcome
from rbalance.simulator.point import SweepPoint, ingredients, run_point
from rbalance.simulator.policy_registry import open_policy
from rbalance.simulator.scheduler import DEPLOYMENTS
from rbalance.simulator.simulation import Simulation, SloControl
from rbalance.tpot.heads import fit_heads

UNIFORM = "route-balance:weights=uniform"
CEILING_S = 5.9
ARTICLE_REQUESTS = 2640
"""A queue that only grows is as long as the run: so many, by the article's figures for it."""
WEIGHTS = (
    *("0.6/0.1/0.3", "0.8/0.1/0.1", "0.7/0/0.3", "0.76/0/0.24"),
    *("0.8/0/0.2", "0.82/0/0.18", "0.84/0/0.16", "0.86/0/0.14"),
)
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
LEANING = (("uniform", "uniform"), ("quality", "0.84/0/0.16"))
QPS_SWEEP = (2, 8, 16, 24, 32)


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


def quality(runs: Runs, baselines: tuple[str, ...], rate: float) -> dict[str, Any]:
    """The best quality within CEILING_S, ours over any baseline's."""

    def run(policy: str) -> SimulationOutcome:
        return runs.run(policy, rate, requests=runs.most)

    ours = {each: run(f"route-balance:weights={each}") for each in WEIGHTS}
    theirs = {each: run(each) for each in baselines}
    always = run(f"passthrough:model={runs.pool.models[-1]}")
    within = {name: each for name, each in ours.items() if each.e2e.mean() <= CEILING_S}
    mine = max(within or ours, key=lambda name: float(ours[name].e2e.mean()))
    mix, other = best_in_time(theirs, float(ours[mine].e2e.mean()))
    gain = mean_interval(ours[mine].quality - other)
    behind = mean_interval(ours[mine].quality - always.quality)
    print(f"λ = {rate:g}: {mine} against {mix}: {gain}")
    return {
        "gain": gain.mean,
        "interval": [gain.low, gain.high],
        "of": [f"route-balance:weights={mine}", mix],
        "quality": [float(ours[mine].quality.mean()), float(other.mean())],
        "e2e_s": float(ours[mine].e2e.mean()),
        "against_always_largest": [behind.mean, behind.low, behind.high],
        "always_largest_e2e_s": float(always.e2e.mean()),
    }


def best_in_time(
    found: dict[str, SimulationOutcome], e2e_s: float
) -> tuple[str, NDArray[np.float64]]:
    """Name and quality by request, [N], of the best point, or mix of two, with that mean E2E."""
    least = max(e2e_s, min(float(each.e2e.mean()) for each in found.values()))
    fast = {name: each for name, each in found.items() if each.e2e.mean() <= least}
    best, quality, name = -1.0, np.zeros(0), ""
    for one, quick in fast.items():
        for two, slow in found.items():
            apart = float(slow.e2e.mean() - quick.e2e.mean())
            share = min(1.0, (e2e_s - float(quick.e2e.mean())) / apart) if apart > 0 else 0.0
            mixed = (1 - share) * quick.quality + share * slow.quality
            if mixed.mean() > best:
                best, quality, name = float(mixed.mean()), mixed, f"{one} + {share:.0%} {two}"
    return name, quality


def quality_gain(runs: Runs, baselines: tuple[str, ...]) -> dict[str, Any]:
    """At the article's load for this, and where instances are busy."""
    at_12, at_30 = (quality(runs, baselines, rate) for rate in (12, 30))
    return {
        "quality_gain_over_best_baseline": at_12["gain"],
        "quality_gain_interval": at_12["interval"],
        "quality_gain_over_best_baseline_lambda30": at_30["gain"],
        "quality_gain_interval_lambda30": at_30["interval"],
        "quality_lambda12": at_12,
        "quality_lambda30": at_30,
    }


def hungarian(runs: Runs, rate: float) -> dict[str, Any]:
    """Greedy LPT against a matching of the same batches, at a load that makes batches."""
    policy = open_policy(UNIFORM, ingredients(runs.pool, runs.cluster))
    assert isinstance(policy, WeightedPolicy)
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
    return {f"ablation_{name}": _ablated(runs, rate, weights) for name, weights in LEANING}


def _ablated(runs: Runs, rate: float, weights: str) -> dict[str, float]:
    policy = f"route-balance:weights={weights}"
    whole = runs.run(policy, rate).summary().e2e_s
    found = {}
    for size in (1, 4, 8, 16, 32):
        sizing = FixedSizing(BatchLimits(size, 0.1))
        outcome = runs.simulate(policy, rate, replace(DEPLOYMENTS["batched"], sizing=sizing))
        tell(f"λ={rate:<3g} {policy} fixed size {size}", outcome)
        found[f"fixed_{size}"] = outcome.summary().e2e_s / whole
    found["lpt_off"] = runs.run(f"{policy},order=arrival", rate).summary().e2e_s / whole
    for dispatch in ("shortest-queue", "round-robin"):
        split = runs.run(f"decoupled:weights={weights},dispatch={dispatch}", rate)
        found[f"decoupled_{dispatch}"] = split.summary().e2e_s / whole
    return found


def slo(runs: Runs, scale: float) -> dict[str, Any]:
    """A load step, with fixed weights and with a controller that is to halve what it adds."""
    load = stepped([(4, 60 * scale), (24, 180 * scale), (4, 120 * scale)], seed=1)
    workload = runs.pool.workload(load, runs.cluster)
    calm, step = load < 60 * scale, (load > 120 * scale) & (load < 240 * scale)

    def run(target_s: float | None) -> SimulationOutcome:
        policy = open_policy("route-balance:weights=quality", ingredients(runs.pool, runs.cluster))
        assert isinstance(policy, WeightedPolicy)
        control = None
        if target_s is not None:
            settings = SloSettings(target_s=target_s, base=PRESETS["quality"])
            control = SloControl(settings=settings, policy=policy)
        scheduler = DEPLOYMENTS["batched"]
        return Simulation(runs.cluster, workload, [policy], scheduler, control=control).run()

    fixed = run(None)
    target_s = float(fixed.e2e[calm].mean() + fixed.e2e[step].mean()) / 2
    held = run(target_s)
    shares = [share for _, share in held.slo_shares]
    found = {"target_s": target_s, "largest_share": max(shares), "last_share": shares[-1]}
    for name, outcome in (("fixed", fixed), ("controlled", held)):
        found[f"{name}_e2e_s"] = float(outcome.e2e[step].mean())
        found[f"{name}_quality"] = float(outcome.quality[step].mean())
    print(f"SLO under a load step: {found}")
    return {"slo_step": found}


def speed(runs: Runs, sizes: tuple[int, ...]) -> dict[str, Any]:
    """Simulated requests a second of one core's time, at the same load per instance."""
    found = {}
    for size in sizes:
        point = SweepPoint(
            policy=UNIFORM, rate=30 * size / 13, requests=runs.requests, instances=size
        )
        began = time.process_time()
        outcome = run_point(point, runs.pool)
        found[size] = round(runs.requests / (time.process_time() - began))
        tell(f"{size} instances, {found[size]} requests simulated a second", outcome)
    return {"simulated_requests_per_cpu_s": found}


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
    args = parser.parse_args()
    named = open_pool(args.data, args.smoke)
    runs = Runs(named, *((200, 200) if args.smoke else (ARTICLE_REQUESTS, len(named.pool.prompt))))
    pool = named.pool
    print(
        f"{named.name}: {len(pool.prompt)} held-out prompts, {len(pool.train_prompt)} learned; "
        f"{runs.requests} requests a run, {runs.most} where quality is compared"
    )
    for model, score, tokens in zip(
        pool.models, pool.quality.mean(axis=0), pool.length.mean(axis=0), strict=True
    ):
        print(f"  {model:30} quality {score:.3f}  {tokens:6.0f} tokens")
    print(HEADING)
    rates = (6.0, 24.0, 30.0) if args.smoke else (6.0, 12.0, 18.0, 24.0, 30.0)
    result = {
        **over_load(runs, rates),
        **quality_gain(runs, BASELINES[::4] if args.smoke else BASELINES),
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
