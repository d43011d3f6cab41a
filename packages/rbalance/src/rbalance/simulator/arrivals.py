"""When requests of an open loop arrive: float64 seconds from the start, ascending.

The public traces are not part of this project: Azure's LLM inference traces of 2023 and 2024
(CSV) and Mooncake's (JSON lines), plain or gzipped.
"""

from __future__ import annotations

import csv
import gzip
import json
import math
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray


def poisson(rate: float, n: int, seed: int) -> NDArray[np.float64]:
    """`n` arrivals of a Poisson process with `rate` requests a second."""
    return np.asarray(np.random.default_rng(seed).exponential(1 / rate, n).cumsum())


def gamma(rate: float, n: int, seed: int, burstiness: float = 4.0) -> NDArray[np.float64]:
    """`n` arrivals at `rate` a second whose gaps are gamma distributed.

    burstiness: the gaps' squared coefficient of variation; 1 is Poisson, more comes in bursts.
    """
    shape = 1 / burstiness
    return np.asarray(np.random.default_rng(seed).gamma(shape, 1 / (rate * shape), n).cumsum())


def stepped(rates: list[tuple[float, float]], seed: int) -> NDArray[np.float64]:
    """A Poisson process whose rate changes: (requests a second, seconds it lasts) in turn."""
    generator = np.random.default_rng(seed)
    parts, start = [], 0.0
    for rate, seconds in rates:
        n = generator.poisson(rate * seconds)
        parts.append(start + np.sort(generator.uniform(0.0, seconds, n)))
        start += seconds
    return np.concatenate(parts)


def at_rate(arrivals: NDArray[np.float64], rate: float) -> NDArray[np.float64]:
    """The same pattern, stretched or squeezed to a mean of `rate` requests a second."""
    if not len(arrivals) or arrivals[-1] == 0:
        return arrivals
    return arrivals * float(len(arrivals) / rate / arrivals[-1])


@dataclass(frozen=True, slots=True, eq=False)
class ArrivalTrace:
    """Recorded traffic: float64 [N] seconds, the first at 0; float64 [N] tokens, NaN if unknown."""

    at: NDArray[np.float64]
    prompt_tokens: NDArray[np.float64]
    output_tokens: NDArray[np.float64]


def read_trace(path: Path, n: int) -> ArrivalTrace:
    """The first `n` requests of a trace file, by arrival; blank lines are skipped.

    Raises ValueError, with the number of the line, for a file of neither format.
    """
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        rows = np.array(sorted(islice(_rows(file, path), n)), np.float64).reshape(-1, 3)
    at = rows[:, 0]
    return ArrivalTrace(at - at[:1], rows[:, 1], rows[:, 2])


def _rows(file: Iterable[bytes], path: Path) -> Iterator[tuple[float, float, float]]:
    number = 0

    def lines() -> Iterator[str]:
        nonlocal number
        for line in file:
            number += 1
            if line.strip():
                yield line.decode("utf-8-sig")

    is_csv = path.name.removesuffix(".gz").endswith(".csv")
    try:
        yield from _azure(lines()) if is_csv else _mooncake(lines())
    except (
        LookupError,
        TypeError,
        ValueError,
        ArithmeticError,
        csv.Error,
        RecursionError,
    ) as error:
        raise ValueError(
            f"{path}, line {number}: neither Azure's trace (CSV with TIMESTAMP) nor Mooncake's"
            f" (JSON lines with timestamp): {error!r}"
        ) from error


def _azure(lines: Iterator[str]) -> Iterator[tuple[float, float, float]]:
    for row in csv.DictReader(lines):
        read, written = row.get("ContextTokens"), row.get("GeneratedTokens")
        yield _seconds(row["TIMESTAMP"]), _tokens(read), _tokens(written)


def _mooncake(lines: Iterator[str]) -> Iterator[tuple[float, float, float]]:
    for line in lines:
        fields = json.loads(line)
        if not isinstance(fields, dict):
            raise TypeError("expected an object")
        read, written = fields.get("input_length"), fields.get("output_length")
        yield _number(fields["timestamp"]) / 1e3, _tokens(read), _tokens(written)


def _tokens(given: str | float | None) -> float:
    return math.nan if given is None else _number(given)


def _number(given: str | float) -> float:
    number = float(given)
    if not 0 <= number < math.inf:
        raise ValueError(f"expected a finite number from 0 on, not {given!r}")
    return number


def _seconds(stamp: str) -> float:
    """Python leaves out what is below a microsecond: Azure's of 2023 have seven digits."""
    at = datetime.fromisoformat(stamp)
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
