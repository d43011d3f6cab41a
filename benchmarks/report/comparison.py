"""Picking measurements and comparing them on the same terms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from benchmarks.report.load_figures import LoadFigures
from benchmarks.report.names import MAIN_CONCURRENCY, OFFICIAL, STD_SERVING

LEAST_STEADY = 0.25
"""A steady window counts when it is at least this share of its run."""

Basis = Literal["steady", "whole"]


class Measurements:
    """Closed loops of one engine, by what was measured; of two of the same the later one counts."""

    def __init__(self, measured: Sequence[LoadFigures], engine: str) -> None:
        self.all = [
            each for each in measured if each.setting.engine == engine and each.setting.concurrency
        ]

    def find(
        self,
        system: str,
        algorithm: str,
        workload: str,
        concurrency: int = MAIN_CONCURRENCY,
    ) -> LoadFigures | None:
        """A system that routes nothing is the same for every algorithm."""
        wanted = (system, workload, concurrency)
        for each in reversed(self.all):
            setting = each.setting
            found = (setting.system, setting.workload, setting.concurrency)
            if found == wanted and setting.algorithm in (algorithm, ""):
                return each
        return None

    def stronger_baseline(self, algorithm: str, workload: str) -> LoadFigures | None:
        """The quicker of `official` and `std-serving`; nothing unless both were measured."""
        found = [self.find(name, algorithm, workload) for name in (OFFICIAL, STD_SERVING)]
        pair = [each for each in found if each is not None]
        if len(pair) < 2:
            return None
        return max(pair, key=lambda each: speed(each, basis(pair)))


def basis(compared: Sequence[LoadFigures]) -> Basis:
    """The steady windows, where all the compared have one that is long enough, else whole runs."""
    enough = (
        each.steady_throughput is not None
        and each.steady_seconds >= LEAST_STEADY * each.seconds
        and not each.unfinished
        for each in compared
    )
    return "steady" if all(enough) else "whole"


def speed(measured: LoadFigures, on: Basis) -> float:
    """Tokens a second."""
    if on == "steady" and measured.steady_throughput is not None:
        return measured.steady_throughput
    return measured.throughput


def ratio(one: LoadFigures, other: LoadFigures) -> float:
    """Throughput of `one` over that of `other`."""
    on = basis([one, other])
    return speed(one, on) / speed(other, on)
