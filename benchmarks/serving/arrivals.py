"""When requests of an open loop arrive: seconds from the start, ascending.

The public traces are not part of this tree: Azure's LLM inference trace of 2023 (CSV) and
Mooncake's (JSON lines), plain or gzipped.
"""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TextIO

import numpy as np


def poisson(rate: float, n: int, seed: int) -> list[float]:
    """`n` arrivals of a Poisson process with `rate` requests a second."""
    gaps = np.random.default_rng(seed).exponential(1 / rate, n)
    return [float(at) for at in gaps.cumsum()]


def at_rate(arrivals: list[float], rate: float) -> list[float]:
    """The same pattern, stretched or squeezed to a mean of `rate` requests a second."""
    if not arrivals or arrivals[-1] == 0:
        return arrivals
    factor = len(arrivals) / rate / arrivals[-1]
    return [at * factor for at in arrivals]


def trace(path: Path, n: int) -> list[float]:
    """The first `n` arrivals of a trace file, the first of them at 0.

    Raises ValueError for a file of neither format.
    """
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        times = sorted(islice(_times(file, path), n))
    return [time - times[0] for time in times]


def _times(file: TextIO, path: Path) -> Iterator[float]:
    kind = path.name.removesuffix(".gz").rpartition(".")[2]
    try:
        if kind == "csv":
            for row in csv.DictReader(file):
                yield _seconds(row["TIMESTAMP"])
        else:
            for line in file:
                yield json.loads(line)["timestamp"] / 1e3
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path}: neither Azure's trace (CSV with TIMESTAMP) nor Mooncake's (JSON lines with"
            f" timestamp): {error!r}"
        ) from error


def _seconds(stamp: str) -> float:
    """Python reads no more than six digits of a second; Azure writes seven."""
    whole, _, fraction = stamp.partition(".")
    return datetime.fromisoformat(whole).replace(tzinfo=UTC).timestamp() + float(
        f"0.{fraction or 0}"
    )
