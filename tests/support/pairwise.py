"""Few combinations of parameters in which every two values meet."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from itertools import combinations, product
from typing import Any

Row = tuple[Any, ...]
Pair = tuple[tuple[int, Hashable], tuple[int, Hashable]]


def pairs(row: Iterable[Hashable]) -> set[Pair]:
    """Every two of its values, each with its place in the row."""
    return set(combinations(enumerate(row), 2))


def pairwise(*parameters: Sequence[Hashable], first: Sequence[Row] = ()) -> list[Row]:
    """Rows of one value of each parameter; of any two parameters, any two values are in a row.

    Each next row is the one, of all there are, in which the most values meet for the first time.

    first: rows that must be among them.
    """
    every = {row: pairs(row) for row in product(*parameters)}
    rows = list(first)
    missing = set[Pair]().union(*every.values()).difference(*(every[row] for row in rows))
    while missing:
        row = max(every, key=lambda row: len(every[row] & missing))
        missing -= every[row]
        rows.append(row)
    return rows
