"""`rbalance report`: a sweep's figures as tables and pictures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import typer

from rbalance.errors import ConfigError
from rbalance.simulator.point import SweepRow
from rbalance.simulator.sweep import read_rows

COLUMNS = (
    "policy",
    "λ",
    "E2E s [95 %]",
    "p99 s",
    "quality [95 %]",
    "1e-5 USD",
    "residual ms",
    "req/s",
)


def report(folder: Path, rate: float | None, *, as_json: bool, pictures: bool) -> int:
    """Print the table, write REPORT.md and pictures. Raises RbalanceError, OSError.

    rate: of the pictures that compare policies at one load; None: the rate nearest to 12.
    """
    rows = sorted(read_rows(folder), key=lambda row: (row.point.rate, row.point.policy))
    if not rows:
        raise ConfigError("FOLDER", f"{folder} holds no points; `rbalance sweep` makes them")
    if as_json:
        typer.echo(msgspec.json.encode(rows).decode())
    rates = {row.point.rate for row in rows}
    at = min(rates, key=lambda each: abs(each - (12.0 if rate is None else rate)))
    written = [] if not pictures else _draw(rows, at, folder)
    text = markdown(rows, [path.name for path in written])
    (folder / "REPORT.md").write_text(text, "utf-8")
    if not as_json:
        typer.echo(text)
        typer.echo(f"{folder / 'REPORT.md'}, {len(written)} pictures")
    return 0


def markdown(rows: Sequence[SweepRow], pictures: Sequence[str]) -> str:
    """One table over all points, and the pictures."""
    lines = [f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|"]
    for row in rows:
        of, point = row.figures, row.point
        cells = (
            point.policy if not point.deployment else f"{point.policy} ({point.deployment})",
            f"{point.rate:g}",
            f"{of.e2e_s:.2f} [{row.e2e_interval[0]:.2f}, {row.e2e_interval[1]:.2f}]",
            f"{of.e2e_p99_s:.1f}",
            f"{of.quality:.3f} [{row.quality_interval[0]:.3f}, {row.quality_interval[1]:.3f}]",
            f"{of.usd * 1e5:.2f}",
            f"{of.residual_s * 1e3:.0f}",
            f"{of.throughput:.1f}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    unanswered = sum(row.figures.requests - row.figures.answered for row in rows)
    lines += ["", f"Requests that no instance could take: {unanswered}", ""]
    lines += [f"![{name.partition('.')[0]}]({name})" for name in pictures]
    return "\n".join(lines) + "\n"


def _draw(rows: Sequence[SweepRow], rate: float, folder: Path) -> list[Path]:
    from rbalance.simulator import pictures

    return [
        pictures.frontier(rows, rate, folder / "frontier.png"),
        pictures.radar(rows, rate, folder / "radar.png"),
        pictures.over_load(rows, folder / "latency.png"),
        pictures.overhead(rows, folder / "overhead.png"),
    ]
