"""All that `benchmarks.routing` found out, in one file, which its part of the report reads."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import msgspec

from benchmarks.report.cost_model import PairCosts
from benchmarks.report.load_figures import LoadFigures

RESULTS = Path(__file__).resolve().parents[1] / "results"
"""Where benchmarks leave their results; not committed."""

FILE = "routing.records.json"


class ThresholdPoint(msgspec.Struct, frozen=True):
    """Throughput (tok/s) at thresholds B = (small, large) with n requests active.

    predicted: by the Markov chain.
    measured: on the profile engine, where that was tried. Where the routing records have none, the
        report takes those of `benchmarks.tuning`.
    """

    n: int
    thresholds: tuple[int, int]
    predicted: float
    measured: float | None = None


class StepBreakdown(msgspec.Struct, frozen=True):
    """Where the milliseconds of one step of the small model go in a system, part by part."""

    system: str
    engine: str
    parts_ms: dict[str, float]


class RoutingRecords(msgspec.Struct, frozen=True, kw_only=True):
    """All that `benchmarks.routing` has measured.

    costs: by engine.
    notes: a sentence each, shown above the tables.
    """

    measured: list[LoadFigures]
    thresholds: list[ThresholdPoint] = []
    steps: list[StepBreakdown] = []
    costs: dict[str, PairCosts] = {}
    notes: list[str] = []


def with_earlier(new: RoutingRecords, engines: Collection[str]) -> RoutingRecords:
    """`new`, which is of `engines`, and what was saved last of any other engine."""
    old = load()
    if old is None:
        return new
    return msgspec.structs.replace(
        new,
        measured=[m for m in old.measured if m.setting.engine not in engines] + new.measured,
        steps=[s for s in old.steps if s.engine not in engines] + new.steps,
        costs={e: costs for e, costs in old.costs.items() if e not in engines} | new.costs,
    )


def save(records: RoutingRecords, folder: Path = RESULTS) -> Path:
    """Write them where `load` finds them."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / FILE
    path.write_bytes(msgspec.json.format(msgspec.json.encode(records)))
    return path


def load(folder: Path = RESULTS) -> RoutingRecords | None:
    """What was saved last, if anything."""
    path = folder / FILE
    if not path.exists():
        return None
    return msgspec.json.decode(path.read_bytes(), type=RoutingRecords)
