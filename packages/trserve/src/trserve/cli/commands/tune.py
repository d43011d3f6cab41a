"""`trserve tune`: the thresholds of delayed batching that give the most tokens a second."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import typer

from trsched.tuning.group_traffic import GroupTraffic
from trsched.tuning.routing_flow import tokens_read_per_step
from trsched.tuning.threshold_study import ThresholdStudy, study_thresholds
from trserve.cli.output_file import check_writable, write_whole
from trserve.cli.progress import progress
from trserve.tune.inputs import Traffic, TrafficOptions, traffic
from trserve.tune.number_lists import counts
from trserve.tune.plot import require_matplotlib, study_png

_MOST_REQUESTS = 1024


@dataclass(frozen=True, slots=True)
class TuneOptions:
    """What the command line asks for."""

    traffic: TrafficOptions
    concurrency: str
    plot: Path | None
    as_json: bool


def tune(options: TuneOptions) -> int:
    """Compute, print, draw. Raises ConfigError naming the option that is wrong."""
    concurrency = counts(options.concurrency, "--concurrency", _MOST_REQUESTS)
    if options.plot is not None:
        check_writable(options.plot, "--plot")
        require_matplotlib("--plot")
    given = traffic(options.traffic)
    with progress() as shown:
        study = study_thresholds(given.group, concurrency, shown.started, shown.advanced)
    names = [model.name for model in given.group.models]
    if options.plot is not None:
        png = study_png(study, names, given.group.flow.rate)
        write_whole(options.plot, "--plot", png)
    if options.as_json:
        typer.echo(json.dumps(_document(given, study), ensure_ascii=False))
    else:
        _print(given, study, names)
        if options.plot is not None:
            typer.echo(f"picture: {options.plot}")
    return 0


def _print(given: Traffic, study: ThresholdStudy, names: list[str]) -> None:
    from trserve.tune.view import StudyView

    typer.echo(f"latencies: {given.latencies_from}")
    typer.echo(f"routing: {given.routing_from}")
    for note in _notes(given.group, study.outcomes[-1].requests):
        typer.echo(note)
    typer.echo("")
    StudyView(study, names).show()


def _notes(group: GroupTraffic, requests: int) -> list[str]:
    notes = []
    for model, tokens in zip(group.models, tokens_read_per_step(group.flow), strict=True):
        if model.extend_token_ms and tokens > 1:
            notes.append(
                f"{model.name} reads {tokens:.2f} tokens of a request in each step: "
                f"{(tokens - 1) * model.extend_token_ms:.2f} ms more"
            )
        if 1 < len(model.step_ms) < requests:
            notes.append(
                f"{model.name}: batches of more than {len(model.step_ms)} were not measured, "
                f"their latency is taken as that of {len(model.step_ms)}"
            )
    if group.shared_device:
        notes.append("one device: models step by turns")
    return notes


def _document(given: Traffic, study: ThresholdStudy) -> dict[str, Any]:
    group, last = given.group, study.outcomes[-1]
    seconds = group.seconds(last.requests)
    return {
        "latencies_from": given.latencies_from,
        "routing_from": given.routing_from,
        "shared_device": group.shared_device,
        "notes": _notes(group, last.requests),
        "models": [
            {
                "name": model.name,
                "step_ms": [round(second * 1e3, 4) for second in latencies],
                "tokens_read_per_step": round(tokens, 4),
                "threshold": threshold,
            }
            for model, latencies, tokens, threshold in zip(
                group.models,
                seconds,
                tokens_read_per_step(group.flow),
                study.recommended.thresholds,
                strict=True,
            )
        ],
        "p": group.flow.rate,
        **msgspec.to_builtins(group.flow),
        **msgspec.to_builtins(study),
    }
