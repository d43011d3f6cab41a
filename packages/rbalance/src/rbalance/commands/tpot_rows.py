"""`rbalance tpot-rows`: what `rbalance fit-tpot` learns from, measured on the simulated cluster."""

from __future__ import annotations

from pathlib import Path

import msgspec
import typer

from rbalance.cluster import article_cluster
from rbalance.commands.progress import progress
from rbalance.commands.sweep import rates_of
from rbalance.simulator.arrivals import poisson
from rbalance.simulator.point import ingredients
from rbalance.simulator.policy_registry import open_policy
from rbalance.simulator.prompt_pool import PromptPool
from rbalance.simulator.scheduler import DEPLOYMENTS
from rbalance.simulator.simulation import Simulation
from rbalance.simulator.sweep import POOL


def write_tpot_rows(folder: Path, out: Path, rates: str, requests: int, seed: int) -> int:
    """A row for each request of a sweep over rates, instances in turn. RbalanceError, OSError."""
    sweep = rates_of(rates)
    pool = PromptPool.load(folder / POOL)
    cluster = article_cluster(pool.models)
    rows = 0
    with out.open("wb") as file, progress("simulating", len(sweep)) as advanced:
        for rate in sweep:
            policy = open_policy("round-robin", ingredients(pool, cluster))
            workload = pool.workload(poisson(rate, requests, seed), cluster, seed)
            run = Simulation(
                cluster, workload, [policy], DEPLOYMENTS["instant"], record_tpot=True
            ).run()
            for row in run.tpot_rows:
                file.write(msgspec.json.encode(row) + b"\n")
            rows += len(run.tpot_rows)
            advanced(1)
    typer.echo(f"{out}: {rows} rows")
    return 0
