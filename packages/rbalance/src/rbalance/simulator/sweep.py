"""Many points, several at a time, each kept as soon as it is done, none run twice."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from rbalance.errors import ArtefactError
from rbalance.simulator.point import SweepPoint, SweepRow, row_of, run_point
from rbalance.simulator.prompt_pool import PromptPool

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rbalance.tpot.heads import TpotHeads

POOL = "pool.npz"
ROWS = "rows.jsonl"

_pool: PromptPool
_heads: TpotHeads | None


def read_rows(folder: Path) -> list[SweepRow]:
    """What has been run so far. A last line cut off, as by a kill, is left out.

    Raises ArtefactError for other lines that are no rows.
    """
    path = folder / ROWS
    if not path.exists():
        return []
    lines = path.read_bytes().split(b"\n")
    rows = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            rows.append(msgspec.json.decode(line, type=SweepRow))
        except msgspec.DecodeError as error:
            if number == len(lines):
                break
            raise ArtefactError(f"{path}:{number}: {error}") from error
    return rows


def run_sweep(
    points: Iterable[SweepPoint], folder: Path, jobs: int, heads: Path | None = None
) -> Iterator[SweepRow]:
    """Yield the rows that were not there yet as they are done, each of them written before.

    folder: holds the pool.
    heads: a folder that `rbalance fit-tpot` wrote, for tpot=xgboost.
    """
    done = {row.point for row in read_rows(folder)}
    left = [point for point in dict.fromkeys(points) if point not in done]
    if not left:
        return
    _cut_torn_line(folder / ROWS)
    with (
        ProcessPoolExecutor(
            min(jobs, len(left)), get_context("spawn"), _open, (folder / POOL, heads)
        ) as workers,
        (folder / ROWS).open("ab") as kept,
    ):
        running = [workers.submit(_run, point) for point in left]
        try:
            for future in as_completed(running):
                row = future.result()
                kept.write(msgspec.json.encode(row) + b"\n")
                kept.flush()
                yield row
        finally:
            for future in running:
                future.cancel()


def _cut_torn_line(path: Path) -> None:
    """Of a run that was killed while it wrote: the next line must begin on its own."""
    data = path.read_bytes() if path.exists() else b""
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        os.truncate(path, whole)


def _open(pool: Path, heads: Path | None) -> None:
    global _pool, _heads
    _pool, _heads = PromptPool.load(pool), None
    if heads is not None:
        from rbalance.tpot.heads_artefact import load_heads

        _heads = load_heads(heads)


def _run(point: SweepPoint) -> SweepRow:
    return row_of(point, run_point(point, _pool, _heads))
