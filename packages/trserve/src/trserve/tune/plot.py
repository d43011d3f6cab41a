"""The picture of `trserve tune --plot`: throughput over the thresholds, and over the true p."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from trsched.errors import ConfigError
from trsched.tuning.threshold_study import ThresholdStudy

_GROUND = "#fbfbf8"
_LINES = (
    ("best there", "best", "#15803d", "-"),
    ("tuned", "tuned", "#c2410c", "-"),
    ("eager", "eager", "#7a7a7a", "--"),
)
_MODELS = ("#1d4ed8", "#c2410c", "#15803d", "#7e22ce", "#0e7490", "#7a7a7a")


def require_matplotlib(field: str) -> None:
    """Raises ConfigError naming `field` and what to install."""
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise ConfigError(field, "needs matplotlib: pip install 'trserve[plot]'") from error
    del mpl


def study_png(study: ThresholdStudy, names: list[str], rate: float) -> bytes:
    """A PNG on an opaque light ground, so that it reads the same on light and dark pages."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4.2), dpi=110, facecolor=_GROUND)
    FigureCanvasAgg(figure)
    thresholds, rates = figure.subplots(1, 2)
    draw = _heat_map if len(names) == 2 else _cross
    draw(figure, thresholds, study, names)
    _sensitivity(rates, study, rate)
    best = study.recommended
    figure.suptitle(
        f"{study.outcomes[-1].requests} requests at once: B = {_text(best.thresholds)}, "
        f"{best.tokens_per_s:.1f} tok/s",
        fontsize=9,
    )
    figure.tight_layout()
    file = io.BytesIO()
    figure.savefig(file, format="png")
    return file.getvalue()


def _text(thresholds: Sequence[int]) -> str:
    return f"({', '.join(map(str, thresholds))})"


def _heat_map(figure: Any, axis: Any, study: ThresholdStudy, names: list[str]) -> None:
    from matplotlib.ticker import MaxNLocator

    rows, columns = (sorted({cell.thresholds[model] for cell in study.grid}) for model in range(2))
    values = [[float("nan")] * len(columns) for _ in rows]
    for cell in study.grid:
        first, second = cell.thresholds
        values[rows.index(first)][columns.index(second)] = cell.tokens_per_s
    image = axis.pcolormesh(range(len(columns)), range(len(rows)), values, cmap="viridis")
    figure.colorbar(image, ax=axis, label="tok/s")
    first, second = study.recommended.thresholds
    axis.plot(columns.index(second), rows.index(first), "*", color="#ffffff", markersize=11)
    for labels, ticks in ((columns, axis.xaxis), (rows, axis.yaxis)):
        ticks.set_major_locator(MaxNLocator(nbins=8, integer=True))
        ticks.set_major_formatter(_labels(labels))
    axis.set_xlabel(f"threshold of {names[1]}")
    axis.set_ylabel(f"threshold of {names[0]}")


def _labels(values: list[int]) -> Any:
    def label(place: float, _: Any) -> str:
        return str(values[int(place)]) if 0 <= place < len(values) and place == int(place) else ""

    return label


def _cross(_figure: Any, axis: Any, study: ThresholdStudy, names: list[str]) -> None:
    best = study.recommended
    for model, name in enumerate(names):
        line = sorted(
            (cell.thresholds[model], cell.tokens_per_s)
            for cell in study.grid
            if all(
                b == c or i == model
                for i, (b, c) in enumerate(zip(cell.thresholds, best.thresholds, strict=True))
            )
        )
        axis.plot(*zip(*line, strict=True), color=_MODELS[model % len(_MODELS)], label=name)
    axis.set_xlabel("threshold of one model, the others' at the optimum")
    _dress(axis)


def _sensitivity(axis: Any, study: ThresholdStudy, rate: float) -> None:
    for label, name, colour, style in _LINES:
        predictions = [getattr(other, name) for other in study.others]
        if name != "best":
            label += f" {_text(predictions[0].thresholds)}"
        axis.plot(
            [other.p for other in study.others],
            [prediction.tokens_per_s for prediction in predictions],
            color=colour,
            linestyle=style,
            marker="o",
            markersize=3,
            linewidth=1.4,
            label=label,
        )
    axis.axvline(rate, color="#d4d4d0", linewidth=1.0, zorder=0)
    axis.set_xlabel(f"true p (tuned for {rate:.3g})")
    _dress(axis)


def _dress(axis: Any) -> None:
    axis.set_facecolor(_GROUND)
    axis.set_ylabel("tok/s")
    axis.grid(color="#d4d4d0", linewidth=0.6)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False, fontsize=8)
