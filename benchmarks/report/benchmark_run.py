"""How one run of one benchmark ended, kept as `NAME.json` among the results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec


class BenchmarkRun(msgspec.Struct, frozen=True, kw_only=True):
    """One benchmark that ran.

    date: ISO 8601, UTC, of its begin.
    failure: what went wrong; empty where nothing did.
    last_line: the JSON object that it ended with.
    about: what it measures and what its figures mean, in its own words.
    """

    name: str
    command: str
    size: str
    date: str
    seconds: float
    failure: str = ""
    last_line: dict[str, Any] = {}
    about: str = ""


def save(run: BenchmarkRun, folder: Path) -> None:
    """Replaces what an earlier run left."""
    folder.mkdir(parents=True, exist_ok=True)
    encoded = msgspec.json.format(msgspec.json.encode(run))
    (folder / f"{run.name}.json").write_bytes(encoded)


def load_all(folder: Path) -> list[BenchmarkRun]:
    """The latest run of every benchmark that has one, by name."""
    paths = sorted(path for path in folder.glob("*.json") if path.name.count(".") == 1)
    return [msgspec.json.decode(path.read_bytes(), type=BenchmarkRun) for path in paths]
