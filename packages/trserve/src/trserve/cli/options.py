"""Command-line options that several commands share, beside those that are settings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def _preset_names() -> list[str]:
    from trserve.presets import preset_names

    return preset_names()


Preset = Annotated[
    str | None,
    typer.Option(
        "--preset",
        "-p",
        metavar="NAME",
        help="A configuration that comes with trserve.",
        autocompletion=_preset_names,
    ),
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
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
