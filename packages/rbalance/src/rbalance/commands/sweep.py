"""`rbalance sweep`: many policies at many loads on a simulated cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import msgspec
import typer

from rbalance.commands.inputs import labelled_prompts, names, open_embedder
from rbalance.commands.progress import progress
from rbalance.errors import ConfigError
from rbalance.simulator.make_pool import make_pool
from rbalance.simulator.point import SweepPoint
from rbalance.simulator.prompt_pool import PromptPool
from rbalance.simulator.sweep import POOL, read_rows, run_sweep

ALL_POLICIES = (
    *(f"route-balance:weights={each}" for each in ("quality", "balanced", "latency", "cost")),
    "route-balance:weights=uniform",
    *(f"avengers-pro:p_w={weight}" for weight in (0.25, 0.53, 0.8)),
    *(f"best-route:threshold={threshold}" for threshold in (0.5, 0.8)),
    "route-llm",
    "semantic-router",
    "tabi",
    "cocktail",
    "infaas",
    "shortest-queue",
    "round-robin",
    "power-of-two",
    "random",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepOptions:
    """What the command line asks for."""

    data: Sequence[Path]
    out: Path
    models: str | None
    policies: Sequence[str]
    rates: str
    weights: Sequence[str]
    requests: int
    arrivals: str
    trace: Path | None
    deployment: str
    instances: int
    seed: int
    precision: str
    jobs: int
    heads: Path | None
    as_json: bool


def sweep(options: SweepOptions) -> int:
    """Prepare the pool once, run what was not run yet. Raises RbalanceError, OSError."""
    points = points_of(options)
    _prepare_pool(options)
    before = len(read_rows(options.out))
    with progress("simulating", len(points)) as advanced:
        advanced(min(before, len(points)))
        for row in run_sweep(points, options.out, options.jobs, options.heads):
            advanced(1)
            if options.as_json:
                typer.echo(msgspec.json.encode(row).decode())
    rows = read_rows(options.out)
    if not options.as_json:
        typer.echo(f"{options.out}: {len(rows)} points, {len(rows) - before} of them new")
        typer.echo(f"rbalance report {options.out} draws them")
    return 0


def points_of(options: SweepOptions) -> list[SweepPoint]:
    """Every policy at every rate. Raises ConfigError."""
    policies = list(options.policies or ALL_POLICIES)
    if options.weights:
        policies = [each for each in policies if not each.startswith("route-balance")]
        policies += [f"route-balance:weights={weights}" for weights in options.weights]
    if options.arrivals not in ("poisson", "gamma"):
        raise ConfigError("--arrivals", f"{options.arrivals!r} is not poisson or gamma")
    points = [
        SweepPoint(
            policy=policy,
            rate=rate,
            requests=options.requests,
            arrivals="gamma" if options.arrivals == "gamma" else "poisson",
            deployment=options.deployment,
            instances=options.instances,
            seed=options.seed,
            trace="" if options.trace is None else str(options.trace),
        )
        for policy, rate in product(policies, rates_of(options.rates))
    ]
    for point in points:
        point.check()
    return points


def rates_of(text: str) -> list[float]:
    """`6,12,30`. Raises ConfigError."""
    try:
        return [float(rate) for rate in text.split(",")]
    except ValueError:
        raise ConfigError("--rates", f"{text!r} is not numbers with commas between") from None


def _prepare_pool(options: SweepOptions) -> None:
    path = options.out / POOL
    if path.exists():
        PromptPool.load(path)
        return
    if not options.data:
        raise ConfigError("DATA", f"{path} is not there yet; name labelled prompts to make it from")
    models = names(options.models)
    if models is None or len(models) != 4:
        raise ConfigError("--models", "name four, cheapest first: they stand for the four tiers")
    records = labelled_prompts(options.data)
    embedder = open_embedder(None, options.precision)
    options.out.mkdir(parents=True, exist_ok=True)
    with progress("embedding", len({record.prompt for record in records})) as advanced:
        make_pool(records, embedder, models, seed=options.seed, advanced=advanced).save(path)
