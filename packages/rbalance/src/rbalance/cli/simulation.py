"""Declarations of `rbalance sweep`, `report`, `replay` and `tpot-rows`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from rbalance.cli.options import AsJson, Precision


def sweep(
    out: Annotated[
        Path,
        typer.Argument(metavar="FOLDER", help="Where points are kept; run again to go on."),
    ],
    data: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[DATA...]", help="Labelled prompts; not needed to go on."),
    ] = None,
    models: Annotated[
        str | None,
        typer.Option(metavar="A,B,C,D", help="Four models, cheapest first, for the four tiers."),
    ] = None,
    policies: Annotated[
        list[str] | None,
        typer.Option(
            "--policy",
            metavar="NAME[:KEY=VALUE,...]",
            help="Like best-route:threshold=0.5,dispatch=random. Repeatable. [default: all]",
        ),
    ] = None,
    weights: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PRESET|Q/C/L", help="Of route-balance, such as 0.6/0.2/0.2. Repeatable."
        ),
    ] = None,
    rates: Annotated[
        str, typer.Option(metavar="A,B,...", help="Requests a second.")
    ] = "6,12,18,24,30",
    requests: Annotated[int, typer.Option(metavar="N", help="At each point.")] = 2000,
    arrivals: Annotated[str, typer.Option(metavar="poisson|gamma")] = "poisson",
    trace: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Arrivals and lengths from Azure's (CSV) or Mooncake's trace."
        ),
    ] = None,
    deployment: Annotated[
        str,
        typer.Option(metavar="NAME", help="How all policies are scored. [default: each as usual]"),
    ] = "",
    instances: Annotated[
        int, typer.Option(metavar="N", help="In all, of the article's mix of tiers.")
    ] = 13,
    seed: Annotated[int, typer.Option(metavar="N")] = 0,
    precision: Precision = "bf16",
    jobs: Annotated[
        int, typer.Option(metavar="N", min=1, help="Points at a time.")
    ] = os.cpu_count() or 1,
    heads: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="What `fit-tpot` wrote, for tpot=xgboost.")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Simulate policies on the article's cluster; points that are there are not run again."""
    from rbalance.commands.sweep import SweepOptions
    from rbalance.commands.sweep import sweep as run

    return run(
        SweepOptions(
            data=data or (),
            out=out,
            models=models,
            policies=policies or (),
            rates=rates,
            weights=weights or (),
            requests=requests,
            arrivals=arrivals,
            trace=trace,
            deployment=deployment,
            instances=instances,
            seed=seed,
            precision=precision,
            jobs=jobs,
            heads=heads,
            as_json=as_json,
        )
    )


SweepFolder = Annotated[Path, typer.Argument(metavar="FOLDER", help="What `sweep` wrote.")]


def report(
    folder: SweepFolder,
    rate: Annotated[
        float | None,
        typer.Option(metavar="N", help="Load at which policies are compared. [default: near 12]"),
    ] = None,
    pictures: Annotated[
        bool, typer.Option("--pictures/--no-pictures", help="Write PNG files, too.")
    ] = True,
    as_json: AsJson = False,
) -> int:
    """Frontier, radar, latency over load and overhead, into the folder."""
    from rbalance.commands.report import report as run

    return run(folder, rate, as_json=as_json, pictures=pictures)


def replay(
    folder: SweepFolder,
    against: Annotated[str, typer.Option(metavar="hungarian")] = "hungarian",
    weights: Annotated[str, typer.Option(metavar="PRESET|Q/C/L")] = "uniform",
    rate: Annotated[float, typer.Option(metavar="N", help="Requests a second.")] = 30.0,
    requests: Annotated[int, typer.Option(metavar="N", min=1)] = 2000,
    batch: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Fixed size. [default: adaptive]")
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N")] = 0,
    as_json: AsJson = False,
) -> int:
    """How often a matching chooses otherwise, and what its answers would have scored."""
    from rbalance.commands.replay import ReplayOptions
    from rbalance.commands.replay import replay as run

    return run(
        ReplayOptions(
            folder=folder,
            against=against,
            weights=weights,
            rate=rate,
            requests=requests,
            batch=batch,
            seed=seed,
            as_json=as_json,
        )
    )


def tpot_rows(
    folder: SweepFolder,
    out: Annotated[Path, typer.Option(metavar="FILE", help="JSON lines.")],
    rates: Annotated[
        str, typer.Option(metavar="A,B,...", help="Requests a second.")
    ] = "1,2,4,8,12,16,20,24,30",
    requests: Annotated[int, typer.Option(metavar="N", min=1, help="At each rate.")] = 2000,
    seed: Annotated[int, typer.Option(metavar="N")] = 0,
) -> int:
    """Sweep over loads, instances in turn, and write a row for each request."""
    from rbalance.commands.tpot_rows import write_tpot_rows

    return write_tpot_rows(folder, out, rates, requests, seed)
