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
from trserve.bench.measurement import BenchPlan, BenchResult, measure
from trserve.bench.plan.load_plan import LoadOptions, plan_load
from trserve.bench.plan.request_plan import RequestOptions, plan_requests, server_url
from trserve.bench.results.objectives import Objectives, objectives
from trserve.bench.results.record_file import record_lines
from trserve.bench.results.summary import LoadSummary, notes, summarise
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
    plan = _plan(options)
    wanted = _objectives(options)
    if options.save is not None:
        check_writable(options.save, "--save")
    try:
        result = measure(plan)
    except ServerError as error:
        raise ConfigError("URL", f"{plan.url}: {error}") from error
    summary = summarise(result.observed, wanted)
    if options.save is not None:
        write_whole(options.save, "--save", record_lines(result.observed.records))
    if options.as_json:
        document = _document(options, plan, result, summary)
        typer.echo(json.dumps(document, ensure_ascii=False, default=str))
    else:
        from trserve.bench.results.result_view import show

        show(summary, f"{plan.url}, model {result.model}", plan.offered_rate)
        if options.save is not None:
            typer.echo(f"{options.save}: every request, one JSON object on a line")
    if result.stopped:
        return KILLED
    return 0 if summary.counts.completed else 1


def _plan(options: BenchOptions) -> BenchPlan:
    url = server_url(options.url)
    load = plan_load(options.load)
    requests = plan_requests(options.requests, load, options.load.seed)
    return BenchPlan(url, load, requests, options.warm_up)


def _objectives(options: BenchOptions) -> Objectives | None:
    if options.slo is None:
        return None
    wanted = objectives(options.slo, "--slo")
    if not options.requests.stream and (wanted.ttft or wanted.tpot):
        raise ConfigError("--slo", "ttft and tpot need --stream")
    return wanted


def _document(
    options: BenchOptions, plan: BenchPlan, result: BenchResult, summary: LoadSummary
) -> dict[str, Any]:
    """Everything; seconds throughout. The key and the values of headers are left out."""
    requests = asdict(options.requests)
    del requests["api_key"]
    return {
        "tool": f"trserve bench {version('trserve')}",
        "configuration": {
            "url": plan.url,
            "load": asdict(options.load),
            "requests": requests
            | {
                "model": result.model,
                "headers": list(plan.requests.headers),
                "input_tokens": str(plan.requests.input_tokens.drawn),
                "output_tokens": str(plan.requests.output_tokens.drawn),
            },
            "warm_up": options.warm_up,
            "slo": options.slo,
            "save": options.save,
        },
        "offered_requests_per_s": plan.offered_rate,
        "stopped": result.stopped,
        **asdict(summary),
        "notes": notes(summary),
    }
