"""Markdown as the report needs it: tables, figures and their units."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

MISSING = "–"
_FIGURES = re.compile(r"\**-?\d|–$")

_UNITS = (
    ("rps_ratio", "×"),
    ("rps", "1/s"),
    ("per_second", "1/s"),
    ("mb", "MB"),
    ("tok_s", "tok/s"),
    ("per_s", "1/s"),
    ("us", "µs"),
    ("ms", "ms"),
    ("seconds", "s"),
    ("s", "s"),
    ("bytes", "bytes"),
    ("ratio", "×"),
    ("share", "of 1"),
    ("cores", "cores"),
    ("tokens", "tokens"),
    ("prompts", "prompts"),
)
"""Words of a figure's name with the unit that they say; the first that fits counts."""


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Columns of figures to the right, others to the left."""
    body = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    columns = zip(titles, *body, strict=True)
    align = ["---:" if body and all(map(_FIGURES.match, cells)) else "---" for _, *cells in columns]
    return "\n".join("| " + " | ".join(line) + " |" for line in [list(titles), align, *body])


def figure(value: float | None, digits: int = 4) -> str:
    """So many significant digits, thousands apart; whole numbers whole."""
    if value is None:
        return MISSING
    if isinstance(value, int) or abs(value) >= 10 ** (digits - 1):
        return f"{value:,.0f}"
    return f"{value:.{digits}g}" if abs(value) >= 1e-4 or value == 0 else f"{value:.2e}"


def unit(name: str) -> str:
    """Of a figure in a benchmark's last line, by its name; empty where the name doesn't say."""
    marked = f"_{name}_"
    return next((unit for words, unit in _UNITS if f"_{words}_" in marked), "")
