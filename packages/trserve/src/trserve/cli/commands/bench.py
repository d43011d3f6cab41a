"""`trserve bench`: load on a server, and what it makes of it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import typer

from trsched.errors import ConfigError
from trserve.bench.client.http_client import ServerError
from trserve.bench.measurement import Measured, Measurement, measure
from trserve.bench.plan.load_plan import LoadOptions, plan_load
from trserve.bench.plan.request_plan import RequestOptions, plan_requests, server_url
from trserve.bench.results.objectives import Objectives, objectives
from trserve.bench.results.record_file import record_lines
from trserve.bench.results.summary import Summary, notes, summarise
from trserve.cli.output_file import check_writable, write_whole
from trserve.http.stop_signals import KILLED


@dataclass(frozen=True, slots=True)
class BenchOptions:
    """What the command line asks for."""

    url: str
    load: LoadOptions
    requests: RequestOptions
    warm_up: int
    slo: str | None
    save: Path | None
    as_json: bool


def bench(options: BenchOptions) -> int:
    """Load, print, save. Raises ConfigError naming the flag that is wrong.

    The exit status is 1 if no request was answered, 130 after Ctrl-C.
    """
    measurement = _measurement(options)
    wanted = _objectives(options)
    if options.save is not None:
        check_writable(options.save, "--save")
    try:
        measured = measure(measurement)
    except ServerError as error:
        raise ConfigError("URL", f"{measurement.url}: {error}") from error
    summary = summarise(measured.observed, wanted)
    if options.save is not None:
        write_whole(options.save, "--save", record_lines(measured.observed.records))
    if options.as_json:
        document = _document(options, measurement, measured, summary)
        typer.echo(json.dumps(document, ensure_ascii=False, default=str))
    else:
        from trserve.bench.results.result_view import show

        show(summary, f"{measurement.url}, model {measured.model}", measurement.offered_rate)
        if options.save is not None:
            typer.echo(f"{options.save}: every request, one JSON object on a line")
    if measured.stopped:
        return KILLED
    return 0 if summary.counts.completed else 1


def _measurement(options: BenchOptions) -> Measurement:
    url = server_url(options.url)
    load = plan_load(options.load)
    requests = plan_requests(options.requests, load, options.load.seed)
    return Measurement(url, load, requests, options.warm_up)


def _objectives(options: BenchOptions) -> Objectives | None:
    if options.slo is None:
        return None
    wanted = objectives(options.slo, "--slo")
    if not options.requests.stream and (wanted.ttft or wanted.tpot):
        raise ConfigError("--slo", "ttft and tpot need --stream")
    return wanted


def _document(
    options: BenchOptions, measurement: Measurement, measured: Measured, summary: Summary
) -> dict[str, Any]:
    """Everything; seconds throughout. The key and the values of headers are left out."""
    requests = asdict(options.requests)
    del requests["api_key"]
    return {
        "tool": f"trserve bench {version('trserve')}",
        "configuration": {
            "url": measurement.url,
            "load": asdict(options.load),
            "requests": requests
            | {
                "model": measured.model,
                "headers": list(measurement.requests.headers),
                "input_tokens": str(measurement.requests.input_tokens.drawn),
                "output_tokens": str(measurement.requests.output_tokens.drawn),
            },
            "warm_up": options.warm_up,
            "slo": options.slo,
            "save": options.save,
        },
        "offered_requests_per_s": measurement.offered_rate,
        "stopped": measured.stopped,
        **asdict(summary),
        "notes": notes(summary),
    }
