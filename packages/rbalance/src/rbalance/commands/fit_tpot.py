"""`rbalance fit-tpot`: from measured requests to TPOT heads."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import msgspec
import typer

from rbalance.commands.progress import progress
from rbalance.tpot.heads import fit_heads
from rbalance.tpot.heads_artefact import save_heads
from rbalance.tpot.record import read_tpot_records


def fit_tpot_heads(files: Sequence[Path], out: Path, *, as_json: bool) -> int:
    """Train, write, print. Raises RbalanceError, OSError."""
    records = [record for file in files for record in read_tpot_records(file)]
    with progress("training", len({record.tier for record in records})) as advanced:
        heads = fit_heads(records, lambda tier: advanced(1))
    save_heads(heads, out)
    if as_json:
        typer.echo(json.dumps({"heads": msgspec.to_builtins(heads.quality)}))
        return 0
    width = max(map(len, heads.quality))
    typer.echo(f"{out}: mean absolute error on rows held back, the head's and a constant's")
    for tier, quality in heads.quality.items():
        typer.echo(
            f"  {tier:{width}}  {quality.rows:6} rows  {quality.error_s * 1e3:7.3f} ms  "
            f"{quality.static_error_s * 1e3:7.3f} ms"
        )
    return 0
