"""The look of the benchmarks' pictures: an opaque light ground, alike on light and dark pages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.report.names import LLM_ONLY, OFFICIAL, OURS, SLM_ONLY, STD_SERVING

GROUND = "#fbfbf8"
COLOURS = {
    OURS: "#c2410c",
    "eager": "#ea8a4f",
    "readmit": "#b08968",
    "lockstep": "#e2b714",
    OFFICIAL: "#7e22ce",
    STD_SERVING: "#1d4ed8",
    "speculative": "#0e7490",
    LLM_ONLY: "#3f3f46",
    SLM_ONLY: "#a1a1aa",
}
SERIES = ("#c2410c", "#1d4ed8", "#15803d", "#7e22ce", "#0e7490", "#e2b714", "#7a7a7a", "#b08968")
MARKERS = dict(zip(COLOURS, "oPX^Ds*vh", strict=True))


@contextmanager
def canvas(
    path: Path, title: str, columns: int = 1, size: tuple[float, float] = (7, 4.2)
) -> Iterator[list[Any]]:
    """A row of axes to draw on; the PNG is written at the end."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, columns, figsize=size, dpi=110, facecolor=GROUND, squeeze=False)
    for axis in axes[0]:
        axis.set_facecolor(GROUND)
        axis.set_axisbelow(True)
        axis.grid(color="#d4d4d0", linewidth=0.6)
        axis.spines[["top", "right"]].set_visible(False)
    try:
        yield list(axes[0])
        figure.suptitle(title, fontsize=9)
        figure.tight_layout()
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path)
    finally:
        plt.close(figure)
