"""Declaration of `trserve profile`; `trserve.cli` adds it to the command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trserve.cli_options import AsJson, Changes, Config, Preset


def profile(
    preset: Preset = None,
    config: Config = None,
    changes: Changes = None,
    batches: Annotated[
        str, typer.Option(metavar="SIZES", help="Batch sizes to measure.")
    ] = "1,2,4,8,16",
    steps: Annotated[
        int, typer.Option(metavar="N", min=1, help="Steps to time for each figure. [default: 24]")
    ] = 24,
    context_tokens: Annotated[
        int,
        typer.Option(
            metavar="N", min=1, help="Tokens that each sequence already holds. [default: 128]"
        ),
    ] = 128,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the latency profile (YAML).")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Measure latencies."""
    from trserve.commands.profile import ProfileOptions, profile_latencies
    from trserve.deployment import load_deployment

    return profile_latencies(
        load_deployment(preset=preset, config=config, changes=changes or ()),
        ProfileOptions(batches, steps, context_tokens, out, as_json),
    )
