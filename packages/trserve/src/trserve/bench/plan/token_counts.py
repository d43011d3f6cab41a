"""How many tokens requests have: a fixed number, or uniform between two."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trsched.errors import ConfigError

_MOST = 10_000_000
_NUMBER = re.compile(r"[0-9]{1,20}").fullmatch  # longer ones Python may not read


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """Uniform from `least` to `most`, both included."""

    least: int
    most: int

    def draw(self, n: int, generator: np.random.Generator) -> NDArray[np.int64]:
        """int64 [n]."""
        return generator.integers(self.least, self.most, n, endpoint=True)

    def __str__(self) -> str:
        return str(self.least) if self.least == self.most else f"{self.least}:{self.most}"


def token_counts(text: str, field: str) -> TokenCounts:
    """`128` or `64:256`. Raises ConfigError naming `field`."""
    ends = text.split(":")
    if len(ends) > 2 or not all(map(_NUMBER, ends)):
        raise ConfigError(field, f"expected a number like 128 or a range like 64:256, not {text!r}")
    least, most = int(ends[0]), int(ends[-1])
    if not 1 <= least <= most <= _MOST:
        raise ConfigError(field, f"expected 1 ≤ A ≤ B ≤ {_MOST}, not {text!r}")
    return TokenCounts(least, most)
