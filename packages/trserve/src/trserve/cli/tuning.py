"""Declarations of `trserve profile` and `trserve tune`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trserve.cli.options import AsJson, Changes, Config, Preset


def profile(
    preset: Preset = None,
    config: Config = None,
    changes: Changes = None,
    batches: Annotated[
        str, typer.Option(metavar="SIZES", help="Batch sizes to measure.")
    ] = "1,2,4,8,16",
    steps: Annotated[
        int, typer.Option(metavar="N", min=1, help="Steps to time for each figure.")
    ] = 24,
    context_tokens: Annotated[
        int,
        typer.Option(metavar="N", min=1, help="Tokens that each sequence already holds."),
    ] = 128,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the latency profile (YAML).")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Measure latencies."""
    from trserve.cli.commands.profile import ProfileOptions, profile_latencies
    from trserve.server.deployment import load_deployment

    deployment = load_deployment(preset=preset, config=config, changes=changes or ())
    options = ProfileOptions(batches, steps, context_tokens, out, as_json)
    with deployment.origin.locating():
        return profile_latencies(deployment, options)


def tune(
    profile: Annotated[
        Path | None,
        typer.Argument(metavar="PROFILE", help="Latencies: a file by trserve profile."),
    ] = None,
    latency_ms: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MS",
            help="Latencies: of a step of one model, or by batch size: 6.0,6.1,6.3. Once a model.",
        ),
    ] = None,
    p: Annotated[
        float | None,
        typer.Option(
            metavar="P", help="Routing: model 0 hands over so often, its token is dropped."
        ),
    ] = None,
    q: Annotated[
        float | None,
        typer.Option(
            metavar="Q", help="With --p: model 1 hands back so often. [default: after each token]"
        ),
    ] = None,
    routing: Annotated[
        str | None,
        typer.Option(
            metavar="MATRIX", help="Routing: by model, where a step leads: 0.65,0.35;1,0."
        ),
    ] = None,
    commit: Annotated[
        str | None,
        typer.Option(
            metavar="MATRIX", help="With --routing: tokens that such a step keeps. [default: 1]"
        ),
    ] = None,
    log: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Both, or what is missing: a server's saved /metrics."),
    ] = None,
    url: Annotated[
        str | None, typer.Option(metavar="URL", help="The same, of a running server.")
    ] = None,
    concurrency: Annotated[
        str, typer.Option(metavar="NUMBERS", help="Requests at the same time.")
    ] = "1,2,4,8,16",
    shared_device: Annotated[
        bool | None,
        typer.Option(
            "--shared-device/--own-devices",
            help="Whether models step by turns. [default: as profiled, else not]",
        ),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw it (PNG; needs matplotlib).")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Find thresholds."""
    from trserve.cli.commands.tune import TuneOptions
    from trserve.cli.commands.tune import tune as run
    from trserve.tune.inputs import TrafficOptions

    traffic = TrafficOptions(
        profile, latency_ms or (), p, q, routing, commit, log, url, shared_device
    )
    return run(TuneOptions(traffic, concurrency, plot, as_json))
