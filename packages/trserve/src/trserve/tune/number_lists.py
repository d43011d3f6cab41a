"""Lists and matrices of numbers as options take them: `1,2,4`, `0.65,0.35;1,0`."""

from __future__ import annotations

import math

from trsched.errors import ConfigError


def counts(text: str, field: str, most: int) -> list[int]:
    """Different whole numbers from 1 to `most`, sorted. Raises ConfigError naming `field`."""
    numbers = set()
    for part in text.split(","):
        word = part.strip()
        if not (word.isascii() and word.isdigit() and 1 <= int(word) <= most):
            raise ConfigError(field, f"expected numbers from 1 to {most} like 1,2,4, not {text!r}")
        numbers.add(int(word))
    return sorted(numbers)


def latencies(text: str, field: str) -> list[float]:
    """Positive milliseconds, one or one for each batch size. Raises ConfigError naming `field`."""
    numbers = _numbers(text, field)
    if not all(0 < number < math.inf for number in numbers):
        raise ConfigError(field, f"expected positive milliseconds, not {text!r}")
    return numbers


def matrix(text: str, field: str) -> list[list[float]]:
    """Rows parted by semicolons; square, all from 0 to 1. Raises ConfigError naming `field`."""
    rows = [_numbers(row, field) for row in text.split(";")]
    if any(len(row) != len(rows) for row in rows):
        raise ConfigError(field, f"expected as many numbers in a row as rows, not {text!r}")
    if not all(0 <= number <= 1 for row in rows for number in row):
        raise ConfigError(field, f"expected numbers from 0 to 1, not {text!r}")
    return rows


def _numbers(text: str, field: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as error:
        raise ConfigError(field, f"expected numbers parted by commas, not {text!r}") from error
