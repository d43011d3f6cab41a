"""The picture of `benchmarks.quality`: quality over the large model's share of tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.parts.curves import CurvePoint

COLOURS = {
    "random": "#7a7a7a",
    "r2r": "#c2410c",
    "citer": "#1d4ed8",
    "co_llm": "#15803d",
    "r_stitch": "#7e22ce",
    "me": "#0e7490",
}
MARKERS = {"random": "x", "r2r": "o", "citer": "s", "co_llm": "^", "r_stitch": "D", "me": "v"}


def plot(
    path: Path,
    curves: Mapping[str, Sequence[CurvePoint]],
    small: CurvePoint,
    large: CurvePoint,
    title: str,
) -> None:
    """Write a PNG on an opaque light ground, so that it reads the same on light and dark pages."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), dpi=110, facecolor="#fbfbf8")
    for axis, name in zip(axes, ("mean_log_likelihood", "argmax_share"), strict=True):
        axis.set_facecolor("#fbfbf8")
        for algorithm, points in curves.items():
            line = sorted([small, *points, large], key=lambda point: point.share)
            axis.plot(
                [point.share for point in line],
                [getattr(point, name) for point in line],
                color=COLOURS[algorithm],
                marker=MARKERS[algorithm],
                markersize=4,
                linewidth=1.4,
                linestyle="--" if algorithm == "random" else "-",
                label=algorithm,
            )
        axis.set_xlabel("share of tokens made by the large model")
        axis.grid(color="#d4d4d0", linewidth=0.6)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("log-likelihood of the output under\nthe large model, nats a token")
    axes[1].set_ylabel("tokens that the large model\nwould have chosen there")
    axes[0].legend(frameon=False, fontsize=8)
    figure.suptitle(title, fontsize=9)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    plt.close(figure)
