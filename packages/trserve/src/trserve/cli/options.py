"""Command-line options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Preset = Annotated[
    str | None,
    typer.Option("--preset", "-p", metavar="NAME", help="A configuration that comes with trserve."),
]
Config = Annotated[
    Path | None,
    typer.Option("--config", "-c", metavar="FILE", help="Your own configuration (YAML)."),
]
Changes = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change one setting, e.g. router.settings.tau=0.2 or models[0].threads=2. Repeatable.",
    ),
]
Context = Annotated[
    int | None,
    typer.Option(metavar="TOKENS", help="Most tokens of one request, prompt and answer together."),
]
KvMemory = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="Memory for all models' KV caches together, e.g. 1GiB; on GPUs also auto.",
    ),
]
MaxActive = Annotated[
    int | None, typer.Option(metavar="N", help="Requests served at the same time.")
]
Mode = Annotated[
    str | None,
    typer.Option(
        metavar="MODE",
        help="routed, or to compare: llm-only, slm-only, official (one request after another). "
        "[default: routed]",
    ),
]
DelayedBatching = Annotated[
    str | None,
    typer.Option(
        metavar="HOW",
        help="auto (tuned while serving), fixed (each model's threshold) or off. [default: auto]",
    ),
]
LoadFormat = Annotated[
    str | None,
    typer.Option(
        metavar="HOW",
        help="How SGLang loads models: auto, safetensors, or dummy (made-up weights, no download).",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
Host = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="Listen on it; 0.0.0.0 for all. [default: 127.0.0.1]"),
]
Port = Annotated[
    int | None, typer.Option(metavar="PORT", help="0 picks a free one. [default: 8000]")
]
ApiKey = Annotated[
    str | None,
    typer.Option(metavar="KEY", help="Clients must send it. Better: the variable TRSERVE_API_KEY."),
]
RequestTimeout = Annotated[
    float | None,
    typer.Option(metavar="SECONDS", help="A request that takes longer ends. [default: never]"),
]
MaxBody = Annotated[
    str | None, typer.Option(metavar="SIZE", help="Largest request body. [default: 4MiB]")
]
DrainTimeout = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS",
        help="How long running requests may go on after Ctrl-C. [default: 30]",
    ),
]
LogLevel = Annotated[
    str | None,
    typer.Option(metavar="LEVEL", help="debug, info, warning or error. [default: info]"),
]
JsonLogs = Annotated[
    bool | None, typer.Option("--json-logs/--text-logs", help="How log lines look.")
]
AccessLog = Annotated[
    bool | None, typer.Option("--access-log/--no-access-log", help="Log every HTTP request.")
]
ReadyFile = Annotated[
    Path | None,
    typer.Option(metavar="PATH", help='For scripts: {"url", "pid"} is written here once ready.'),
]
