"""`trserve profile`: what a decode step of each model costs, by batch size and tokens ingested."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import typer
from msgspec.structs import replace as changed

from trsched.engines.clock import WallClock
from trsched.engines.fetch import fetch_and_check
from trsched.engines.open_engine import open_engine
from trsched.errors import ConfigError
from trsched.plan.check import GroupPlan
from trsched.plan.config import ProfileModel
from trsched.plan.kv_budget import MAX_SEQUENCES
from trsched.request import SamplingParams
from trserve.cli.output_file import check_writable, write_whole
from trserve.cli.progress import Progress, progress
from trserve.server.deployment import Deployment
from trserve.tune.latency_measurement import (
    EXTEND_TOKENS,
    MeasurementPlan,
    extend_token_ms,
    measure,
    step_ms_by_size,
)
from trserve.tune.latency_profile import (
    LatencyProfile,
    MeasuredPoint,
    MeasuringConditions,
    profile_document,
    profile_text,
)
from trserve.tune.number_lists import counts

_STEADY = 1.5  # upper over lower quartile
_PROMPT = "Once upon a time there was a lighthouse on a rock in the sea, and "


@dataclass(frozen=True, slots=True)
class ProfileOptions:
    """What the command line asks for."""

    batches: str
    steps: int
    context_tokens: int
    out: Path | None
    as_json: bool


def profile_latencies(deployment: Deployment, options: ProfileOptions) -> int:
    """Measure model after model, print, write. Raises ConfigError naming what is wrong."""
    measurement = MeasurementPlan(
        counts(options.batches, "--batches", MAX_SEQUENCES), options.context_tokens, options.steps
    )
    if options.out is not None:
        check_writable(options.out, "--out")
    plan = _plan(deployment, measurement)
    with progress() as shown:
        points = [_measure(plan, index, measurement, shown) for index in range(len(plan.paths))]
    profile = _profile(deployment, plan, measurement, points)
    if options.out is not None:
        write_whole(options.out, "--out", profile_text(profile).encode())
    if options.as_json:
        typer.echo(json.dumps(profile_document(profile), ensure_ascii=False))
    else:
        _print(profile, options.out)
    return 0


def _plan(deployment: Deployment, measurement: MeasurementPlan) -> GroupPlan:
    """The group with room for exactly the sequences that are measured."""
    group = changed(
        deployment.group,
        mode="routed",  # every model, also of a configuration that serves one of them
        delayed_batching="off",
        context=measurement.context + max(EXTEND_TOKENS),
        max_active=measurement.batches[-1],
        kv_memory="1024GiB",  # no more is taken than these sequences need
    )
    try:
        return fetch_and_check(group, lambda line: None)
    except ConfigError as error:
        if error.field != "context":
            raise
        message = str(error).removeprefix("context: ")
        raise ConfigError(
            "--context-tokens", f"with {max(EXTEND_TOKENS)} more, {message}"
        ) from error


def _measure(
    plan: GroupPlan, index: int, measurement: MeasurementPlan, shown: Progress
) -> list[MeasuredPoint]:
    model = plan.config.models[index]
    shown.started(model.name, len(measurement.points) * len(measurement.steps_by_round))
    # one model at a time, so each has all cores to itself
    with closing(open_engine(plan, index, shown.note)) as engine:
        prompt = plan.vocabularies[index].encode(_PROMPT, special=False)
        sampling = model.sampling.over(SamplingParams())
        return measure(engine, measurement, prompt, sampling, WallClock(), shown.advanced)


def _profile(
    deployment: Deployment,
    plan: GroupPlan,
    measurement: MeasurementPlan,
    points: Sequence[list[MeasuredPoint]],
) -> LatencyProfile:
    names = [model.name for model in plan.config.models]
    models = [
        ProfileModel(name, step_ms_by_size(measured), extend_token_ms(measured))
        for name, measured in zip(names, points, strict=True)
    ]
    measured = MeasuringConditions(
        source=deployment.source,
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        cores=len(os.sched_getaffinity(0)),
        context_tokens=measurement.context,
        steps=measurement.steps,
        batches=list(measurement.batches),
        extend_tokens=list(EXTEND_TOKENS),
        shared_device=len(names) > 1 and not plan.config.overlap,
        points=dict(zip(names, points, strict=True)),
    )
    return LatencyProfile(models, measured)


def _print(profile: LatencyProfile, out: Path | None) -> None:
    from rich.console import Console
    from rich.table import Table

    assert profile.measured is not None
    console = Console(width=None if sys.stdout.isatty() else 100, highlight=False, markup=False)
    for model in profile.models:
        table = Table(title=model.name, title_justify="left")
        for heading in ("batch", "tokens each", "ms", "25 % – 75 %", "tok/s"):
            table.add_column(heading, justify="right")
        for point in profile.measured.points[model.name]:
            table.add_row(
                str(point.batch),
                str(point.tokens),
                f"{point.ms:.2f}",
                f"{point.low_ms:.2f} – {point.high_ms:.2f}",
                f"{point.batch / point.ms * 1e3:.1f}" if point.tokens == 1 else "",
            )
        console.print(table)
        typer.echo(f"each further token that a step ingests: {model.extend_token_ms:.3f} ms\n")
    points = [point for measured in profile.measured.points.values() for point in measured]
    if any(point.high_ms > _STEADY * point.low_ms for point in points):
        typer.echo(
            "Latencies vary much: something else may use this machine. Better measure again."
        )
    if out is not None:
        typer.echo(f"{out}: the profile; next: trserve tune {out} --p 0.2")
