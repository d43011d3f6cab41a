"""The pictures of `benchmarks.routing`; each is left out where nothing of it was measured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.load.workload import WORKLOADS
from benchmarks.report.canvas import COLOURS, MARKERS, SERIES, canvas
from benchmarks.report.comparison import Measurements, basis, speed
from benchmarks.report.load_figures import LoadFigures
from benchmarks.report.names import (
    ALGORITHMS,
    ENGINES,
    GAIN_STAGES,
    LLM_ONLY,
    MAIN_ALGORITHM,
    MAIN_CONCURRENCY,
    MAIN_WORKLOAD,
    OFFICIAL,
    OURS,
    STD_SERVING,
    SYSTEMS,
)
from benchmarks.report.records import RoutingRecords, StepBreakdown, ThresholdPoint

COMPARED = (OURS, STD_SERVING, OFFICIAL, LLM_ONLY)
THRESHOLDS = "thresholds.png"
MAIN = f"{ALGORITHMS[MAIN_ALGORITHM]}, {MAIN_WORKLOAD}"


def write_plots(folder: Path, records: RoutingRecords) -> dict[str, str]:
    """Write what there is to draw into `folder`: file names with what they show."""
    written: dict[str, str] = {}

    def add(name: str, caption: str, drawn: bool) -> None:
        if drawn:
            written[name] = caption

    for engine in ENGINES:
        measurements = Measurements(records.measured, engine)
        name = f"throughput_speed_{engine}.png"
        caption = f"Throughput over a user's speed, 1 to 16 clients, {MAIN}, {engine} engine"
        add(name, caption, curves(folder / name, measurements, caption))
        name = f"systems_{engine}.png"
        caption = f"Throughput with {MAIN_CONCURRENCY} clients, {engine} engine"
        add(name, caption, bars(folder / name, measurements, caption))
        name = f"gain_{engine}.png"
        caption = f"What each part gains: {MAIN}, {MAIN_CONCURRENCY} clients, {engine} engine"
        add(name, caption, gains(folder / name, measurements, caption))
    caption = "One step of the small model, part by part"
    add("step.png", caption, step_parts(folder / "step.png", records.steps, caption))
    caption = "Throughput over B: lines predicted by the Markov chain, marks measured (profile)"
    add(THRESHOLDS, caption, thresholds(folder / THRESHOLDS, records.thresholds, caption))
    return written


def curves(path: Path, measurements: Measurements, title: str) -> bool:
    """One line a system, a mark for each number of clients."""
    lines: dict[str, list[LoadFigures]] = {}
    for system in SYSTEMS:
        counts = sorted({each.setting.concurrency for each in measurements.all})
        found = [measurements.find(system, MAIN_ALGORITHM, MAIN_WORKLOAD, n) for n in counts]
        points = [each for each in found if each and each.user_speed]
        if len(points) > 1:
            lines[system] = points
    if not lines:
        return False
    with canvas(path, title) as (axis,):
        for system, points in lines.items():
            x = [point.user_speed for point in points]
            y = [speed(point, basis([point])) for point in points]
            axis.plot(x, y, color=COLOURS[system], marker=MARKERS[system], label=system)
            for point, across, up in zip(points, x, y, strict=True):
                clients = str(point.setting.concurrency)
                axis.annotate(clients, (across, up), (3, 3), textcoords="offset points", fontsize=7)
        axis.set_xlabel("tokens a second that one user sees (marks: number of clients)")
        axis.set_ylabel("tokens a second of all")
        axis.set_xlim(left=0)
        axis.set_ylim(bottom=0)
        axis.legend(frameon=False, fontsize=8)
    return True


def bars(path: Path, measurements: Measurements, title: str) -> bool:
    """A panel a workload, a group of bars an algorithm, a bar a system."""
    found = {
        (workload, system, algorithm): measurements.find(system, algorithm, workload)
        for workload in WORKLOADS
        for system in COMPARED
        for algorithm in ALGORITHMS
    }
    panels = [w for w in WORKLOADS if any(found[w, s, a] for s in COMPARED for a in ALGORITHMS)]
    if not panels:
        return False
    with canvas(path, title, len(panels), (2.4 + 3.8 * len(panels), 4.0)) as axes:
        for axis, workload in zip(axes, panels, strict=True):
            width = 0.8 / len(COMPARED)
            for place, system in enumerate(COMPARED):
                heights = []
                for algorithm in ALGORITHMS:
                    measured = found[workload, system, algorithm]
                    heights.append(speed(measured, basis([measured])) if measured else 0.0)
                left = [i + (place - 1.5) * width for i in range(len(ALGORITHMS))]
                axis.bar(left, heights, width, color=COLOURS[system], label=system)
            axis.set_title(workload, fontsize=9)
            axis.set_xticks(range(len(ALGORITHMS)), list(ALGORITHMS.values()), fontsize=8)
        axes[0].set_ylabel("tokens a second")
        axes[-1].legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    return True


def gains(path: Path, measurements: Measurements, title: str) -> bool:
    """One bar a stage, with its throughput above it."""
    found = [measurements.find(name, MAIN_ALGORITHM, MAIN_WORKLOAD) for name in GAIN_STAGES]
    stages = [each for each in found if each is not None]
    if len(stages) < 2:
        return False
    on = basis(stages)
    with canvas(path, title, size=(6, 4)) as (axis,):
        heights = [speed(stage, on) for stage in stages]
        names = [stage.setting.system for stage in stages]
        drawn = axis.bar(names, heights, 0.6, color=[COLOURS[name] for name in names])
        axis.bar_label(drawn, [f"{height:,.1f}" for height in heights], fontsize=9)
        axis.set_ylabel("tokens a second")
    return True


def step_parts(path: Path, breakdowns: Sequence[StepBreakdown], title: str) -> bool:
    """One stacked bar a system."""
    if not breakdowns:
        return False
    parts = list(dict.fromkeys(part for each in breakdowns for part in each.parts_ms))
    colours = [SERIES[i % len(SERIES)] for i in range(len(parts))]
    with canvas(path, title, size=(8, 1.6 + 0.7 * len(breakdowns))) as (axis,):
        names = [f"{each.system}, {each.engine}" for each in breakdowns]
        left = [0.0] * len(names)
        for part, colour in zip(parts, colours, strict=True):
            widths = [each.parts_ms.get(part, 0.0) for each in breakdowns]
            axis.barh(names, widths, 0.6, left=left, color=colour, label=part)
            left = [start + width for start, width in zip(left, widths, strict=True)]
        axis.invert_yaxis()
        axis.set_xlabel("milliseconds")
        axis.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    return True


def thresholds(path: Path, points: Sequence[ThresholdPoint], title: str) -> bool:
    """A panel for each N; a line for each B of the small model that was also measured, or is best.

    At most four lines a panel, the best ones.
    """
    counts = sorted({point.n for point in points})
    if not counts:
        return False
    with canvas(path, title, len(counts), (1.0 + 3.2 * len(counts), 3.8)) as axes:
        for axis, n in zip(axes, counts, strict=True):
            here = sorted((p for p in points if p.n == n), key=lambda p: -p.predicted)
            best = list(dict.fromkeys(point.thresholds[0] for point in here))
            tried = {p.thresholds[0] for p in here if p.measured is not None}
            shown = sorted([b for b in best if b in tried or b == best[0]][:4])
            for small, colour in zip(shown, SERIES, strict=False):
                line = sorted(
                    (p for p in here if p.thresholds[0] == small), key=lambda p: p.thresholds[1]
                )
                large = [point.thresholds[1] for point in line]
                label = f"B small = {small}"
                axis.plot(large, [p.predicted for p in line], color=colour, label=label)
                marks = [(p.thresholds[1], p.measured) for p in line if p.measured is not None]
                axis.plot(*zip(*marks, strict=True), "o", color=colour) if marks else None
            axis.set_title(f"N = {n}", fontsize=9)
            axis.set_xlabel("B of the large model")
            axis.xaxis.get_major_locator().set_params(integer=True)
            axis.legend(frameon=False, fontsize=7)
        axes[0].set_ylabel("tokens a second")
    return True
