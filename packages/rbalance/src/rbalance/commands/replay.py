"""`rbalance replay --against hungarian`: decisions beside the best matching of each batch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import typer

from rbalance.cluster import article_cluster
from rbalance.decide.batching import BatchLimits, FixedSizing
from rbalance.errors import ConfigError
from rbalance.policies.policy import WeightedPolicy
from rbalance.simulator.arrivals import poisson
from rbalance.simulator.hungarian import HungarianReplay
from rbalance.simulator.point import ingredients
from rbalance.simulator.policy_registry import open_policy
from rbalance.simulator.prompt_pool import PromptPool
from rbalance.simulator.scheduler import DEPLOYMENTS
from rbalance.simulator.simulation import Simulation
from rbalance.simulator.sweep import POOL


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    """What the command line asks for.

    batch: None: adaptive.
    """

    folder: Path
    against: str
    weights: str
    rate: float
    requests: int
    batch: int | None
    seed: int
    as_json: bool


def replay(options: ReplayOptions) -> int:
    """Simulate, match every batch again, print. Raises RbalanceError, OSError."""
    if options.against != "hungarian":
        raise ConfigError("--against", f"{options.against!r} is not hungarian")
    if not options.rate > 0:
        raise ConfigError("--rate", f"must be above 0, not {options.rate:g}")
    pool = PromptPool.load(options.folder / POOL)
    cluster = article_cluster(pool.models)
    policy = open_policy(
        f"route-balance:weights={options.weights}", ingredients(pool, cluster), options.seed
    )
    assert isinstance(policy, WeightedPolicy)
    arrival = poisson(options.rate, options.requests, options.seed)
    workload = pool.workload(arrival, cluster, options.seed)
    scheduler = DEPLOYMENTS["batched"]
    if options.batch is not None:
        sizing = FixedSizing(BatchLimits(options.batch, options.batch / options.rate * 2))
        scheduler = replace(scheduler, sizing=sizing)
    watched = HungarianReplay(policy, workload)
    Simulation(cluster, workload, [policy], scheduler, decided=watched.watch).run()
    found = watched.agreement()
    if options.as_json:
        typer.echo(msgspec.json.encode(found).decode())
        return 0
    typer.echo(
        f"{found.requests} requests in {found.batches} batches: the matching chooses another "
        f"instance for {found.instance_differs:.1%}, another model for {found.model_differs:.1%}"
    )
    typer.echo(
        f"its answers' quality differs by {found.quality_delta:+.4f} "
        f"[{found.quality_low:+.4f}, {found.quality_high:+.4f}]"
    )
    return 0
