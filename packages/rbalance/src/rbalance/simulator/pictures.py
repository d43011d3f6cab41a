"""A sweep in pictures: the frontier, a radar, latency over load, and what deciding costs."""

from __future__ import annotations

import math
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rbalance.errors import MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from rbalance.simulator.point import SweepRow

_GROUND = "#fbfbf8"
_COLOURS = ("#c2410c", "#1d4ed8", "#15803d", "#7e22ce", "#0e7490", "#e2b714", "#7a7a7a", "#b08968")
_MARKERS = "oPX^Ds*vh<>p"


def frontier(rows: Sequence[SweepRow], rate: float, path: Path) -> Path:
    """Quality over latency at one load, with 95 % intervals; a colour for each policy."""
    with _axes(path, f"quality and latency, λ = {rate:g} requests/s") as axis:
        for name, own in _by_policy(_at(rows, rate)).items():
            e2e = [row.figures.e2e_s for row in own]
            quality = [row.figures.quality for row in own]
            axis.errorbar(
                e2e,
                quality,
                xerr=_arms(e2e, [row.e2e_interval for row in own]),
                yerr=_arms(quality, [row.quality_interval for row in own]),
                fmt=_marker(rows, name),
                color=_colour(rows, name),
                label=name,
                markersize=6,
                elinewidth=0.7,
            )
        axis.set(xscale="log", xlabel="mean end-to-end latency, s", ylabel="quality")
        _plain_ticks(axis.xaxis)
        axis.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1.01, 1))
    return path


def radar(rows: Sequence[SweepRow], rate: float, path: Path) -> Path:
    """Quality, speed, cheapness and throughput of each policy's best-scoring point, best = 1."""
    best = {
        name: max(own, key=lambda row: row.figures.quality)
        for name, own in _by_policy(_at(rows, rate)).items()
    }
    measures: dict[str, Callable[[SweepRow], float]] = {
        "quality": lambda row: row.figures.quality,
        "speed": lambda row: 1 / row.figures.e2e_s,
        "cheapness": lambda row: 1 / row.figures.usd,
        "throughput": lambda row: row.figures.throughput,
    }
    angles = [2 * math.pi * at / len(measures) for at in range(len(measures))]
    most = {name: max(of(row) for row in best.values()) for name, of in measures.items()}
    title = f"each policy's point of highest quality, λ = {rate:g}"
    with _axes(path, title, projection="polar") as axis:
        for name, row in best.items():
            values = [of(row) / most[measure] for measure, of in measures.items()]
            closed = [*values, values[0]]
            axis.plot([*angles, angles[0]], closed, color=_colour(rows, name), label=name)
        axis.set_xticks(angles, list(measures))
        axis.legend(fontsize=6, loc="upper left", bbox_to_anchor=(1.05, 1))
    return path


def over_load(rows: Sequence[SweepRow], path: Path) -> Path:
    """Mean latency of every point over its load."""
    return _lines(rows, path, "latency over load", "mean end-to-end latency, s", _e2e)


def overhead(rows: Sequence[SweepRow], path: Path) -> Path:
    """Time from arrival to dispatch over load: queueing for a decision, and the decision."""
    return _lines(rows, path, "what deciding costs", "arrival to dispatch, s", _residual)


def _e2e(row: SweepRow) -> float:
    return row.figures.e2e_s


def _residual(row: SweepRow) -> float:
    return max(row.figures.residual_s, 1e-4)  # on a logarithmic axis


def _lines(rows: Sequence[SweepRow], path: Path, title: str, label: str, of: Any) -> Path:
    curves: dict[str, list[SweepRow]] = {}
    for row in rows:
        curves.setdefault(f"{row.point.policy} {row.point.deployment}".strip(), []).append(row)
    with _axes(path, title, size=(9, 5)) as axis:
        for at, (name, own) in enumerate(sorted(curves.items())):
            own.sort(key=lambda row: row.point.rate)
            axis.plot(
                [row.point.rate for row in own],
                [of(row) for row in own],
                marker=_MARKERS[at % len(_MARKERS)],
                color=_colour(rows, own[0].point.policy.partition(":")[0]),
                markersize=4,
                linewidth=1,
                label=name,
            )
        axis.set(yscale="log", xlabel="requests/s", ylabel=label)
        _plain_ticks(axis.yaxis)
        axis.legend(fontsize=6, loc="upper left", bbox_to_anchor=(1.01, 1))
    return path


@contextmanager
def _axes(
    path: Path, title: str, size: tuple[float, float] = (7.5, 4.8), projection: str | None = None
) -> Iterator[Any]:
    """One picture's axes; the PNG is written at the end. Raises MissingExtraError."""
    try:
        import matplotlib as mpl

        mpl.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError as missing:
        raise MissingExtraError("matplotlib", "report") from missing
    figure = plt.figure(figsize=size, dpi=110, facecolor=_GROUND)
    axis = figure.add_subplot(projection=projection)
    axis.set_facecolor(_GROUND)
    axis.grid(color="#d4d4d0", linewidth=0.6)
    try:
        yield axis
        axis.set_title(title, fontsize=9)
        figure.savefig(path, bbox_inches="tight")
    finally:
        plt.close(figure)


def _plain_ticks(axis: Any) -> None:
    """On a logarithmic axis: 3, not 3 × 10⁰."""
    axis.set_major_formatter("{x:g}")
    low, high = axis.get_view_interval()
    if high < 10 * low:
        axis.set_minor_formatter("{x:g}")


def _at(rows: Sequence[SweepRow], rate: float) -> list[SweepRow]:
    return [row for row in rows if row.point.rate == rate]


def _by_policy(rows: Sequence[SweepRow]) -> dict[str, list[SweepRow]]:
    found: dict[str, list[SweepRow]] = {}
    for row in rows:
        found.setdefault(row.point.policy.partition(":")[0], []).append(row)
    return dict(sorted(found.items()))


def _number(rows: Sequence[SweepRow], name: str) -> int:
    return list(_by_policy(rows)).index(name)


def _colour(rows: Sequence[SweepRow], name: str) -> str:
    return _COLOURS[_number(rows, name) % len(_COLOURS)]


def _marker(rows: Sequence[SweepRow], name: str) -> str:
    return _MARKERS[_number(rows, name) % len(_MARKERS)]


def _arms(values: Sequence[float], intervals: Sequence[tuple[float, float]]) -> list[list[float]]:
    pairs = list(zip(values, intervals, strict=True))
    return [
        [max(0.0, value - low) for value, (low, _) in pairs],
        [max(0.0, high - value) for value, (_, high) in pairs],
    ]
