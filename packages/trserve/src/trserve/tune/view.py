"""How a study of thresholds looks in the terminal: tables, a heat map, the settings to use."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from trsched.tuning.threshold_study import ConcurrencyResult, ThresholdStudy
from trsched.tuning.throughput import Prediction

_COLD, _HOT = (33, 47, 61), (22, 163, 74)  # RGB of the heat map's least and best cell


class StudyView:
    """Writes to stdout; colours only in a terminal."""

    def __init__(self, study: ThresholdStudy, names: Sequence[str]) -> None:
        self._study = study
        self._names = list(names)
        width = None if sys.stdout.isatty() else 120
        self._console = Console(width=width, highlight=False, markup=False)

    def show(self) -> None:
        """Everything, in the order in which questions come up."""
        self._outcomes()
        self._verdict()
        self._grid()
        self._other_rates()
        self._settings()

    def _line(self, text: str = "") -> None:
        self._console.print(text, soft_wrap=True)

    def _outcomes(self) -> None:
        alone = [f"{name} alone" for name in self._names]
        eager = f"eager {_thresholds([1] * len(self._names))}"
        table = _table("Throughput, tok/s", "requests", eager, "best B", "best", "gain", *alone)
        for outcome in self._study.outcomes:
            table.add_row(
                str(outcome.requests),
                _figure(outcome.eager),
                _thresholds(outcome.best.thresholds),
                _figure(outcome.best),
                f"{outcome.gain:+.1%}",
                *(f"{outcome.alone[name]:.1f}" for name in self._names),
            )
        self._console.print(table)
        shown = [each for o in self._study.outcomes for each in (o.eager, o.best)]
        if any(prediction.method == "simulation" for prediction in shown):
            self._line(
                "~ simulated: too much for the Markov chain (of two models, up to 32 requests)"
            )

    def _verdict(self) -> None:
        large = self._names[-1]
        losses = [outcome for outcome in self._study.outcomes if not outcome.routing_pays]
        if losses:
            self._line(f"Routing is a loss in throughput with {_requests(losses)} at once:")
            for outcome in losses:
                share = 1 - outcome.best.tokens_per_s / outcome.alone[large]
                self._line(
                    f"  {outcome.requests}: {large} alone makes {outcome.alone[large]:.1f} tok/s, "
                    f"routing {share:.1%} less"
                )
        else:
            self._line(f"Routing is quicker than {large} alone at every concurrency above.")
        self._line()

    def _grid(self) -> None:
        requests = self._study.outcomes[-1].requests
        eager = self._study.outcomes[-1].eager.tokens_per_s
        if len(self._names) == 2:
            self._line(
                f"{requests} requests: % over eager by the thresholds of {self._names[0]} "
                f"(down) and {self._names[1]} (across)"
            )
            self._heat_map(eager)
        else:
            table = _table(f"{requests} requests, around the best", "B", "tok/s", "over eager")
            for cell in self._study.grid:
                gain = cell.tokens_per_s / eager - 1
                table.add_row(_thresholds(cell.thresholds), _figure(cell), f"{gain:+.1%}")
            self._console.print(table)
        self._line()

    def _heat_map(self, eager: float) -> None:
        cells = {tuple(cell.thresholds): cell.tokens_per_s / eager - 1 for cell in self._study.grid}
        low, high = min(cells.values()), max(cells.values())
        best = tuple(self._study.recommended.thresholds)
        columns = sorted({second for _, second in cells})
        self._console.print(Text("".join(["    ", *(f"{b:>6}" for b in columns)]), "bold"))
        for row in sorted({first for first, _ in cells}):
            line = Text(f"{row:>4}", "bold")
            for column in columns:
                gain = cells.get((row, column))
                if gain is None:
                    continue
                mark = "*" if (row, column) == best else " "
                heat = (gain - low) / (high - low) if high > low else 1.0
                line.append(f"{_rounded(gain):>5}{mark}", _heat(heat))
            self._console.print(line, soft_wrap=True)

    def _other_rates(self) -> None:
        tuned = _thresholds(self._study.recommended.thresholds)
        table = _table(
            f"If p is another, {self._study.outcomes[-1].requests} requests, tok/s",
            *("p", f"B = {tuned}", "eager", "best B there", "best", "loss", "over eager"),
        )
        for other in self._study.others:
            table.add_row(
                f"{other.p:.3g}",
                _figure(other.tuned),
                _figure(other.eager),
                _thresholds(other.best.thresholds),
                _figure(other.best),
                f"{other.loss:.1%}",
                f"{other.gain:+.1%}",
            )
        self._console.print(table)
        self._line()

    def _settings(self) -> None:
        best = self._study.recommended.thresholds
        self._line(f"Settings for {self._study.outcomes[-1].requests} requests at once:")
        self._line(
            "  delayed_batching: fixed  # auto, the default, starts there and goes on tuning"
        )
        self._line("  models:")
        for name, threshold in zip(self._names, best, strict=True):
            self._line(f"    - {{name: {name}, threshold: {threshold}, …}}")
        changes = (f"--set models[{i}].threshold={b}" for i, b in enumerate(best))
        self._line(f"or: trserve launch … --delayed-batching fixed {' '.join(changes)}")


def _table(title: str, *headings: str) -> Table:
    table = Table(title=title, title_justify="left")
    for heading in headings:
        table.add_column(heading, justify="right")
    return table


def _thresholds(thresholds: Sequence[int]) -> str:
    return f"({', '.join(map(str, thresholds))})"


def _figure(prediction: Prediction) -> str:
    mark = "~" if prediction.method == "simulation" else ""
    return f"{mark}{prediction.tokens_per_s:.1f}"


def _requests(outcomes: Sequence[ConcurrencyResult]) -> str:
    return f"{', '.join(str(outcome.requests) for outcome in outcomes)} requests"


def _rounded(gain: float) -> str:
    text = f"{gain * 100:+.0f}"
    return "0" if text in {"+0", "-0"} else text


def _heat(share: float) -> str:
    channels = (round(cold + (hot - cold) * share) for cold, hot in zip(_COLD, _HOT, strict=True))
    return f"white on #{''.join(f'{channel:02x}' for channel in channels)}"
