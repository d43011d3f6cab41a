"""`REPORT.md`: what all benchmarks found, with its units, its configuration and its commands.

Written from whatever lies among the results, so a part of the benchmarks makes a report too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.load.workload import WORKLOADS
from benchmarks.report import benchmark_run, records
from benchmarks.report.benchmark_run import BenchmarkRun
from benchmarks.report.comparison import LEAST_STEADY, Measurements
from benchmarks.report.headline import headline
from benchmarks.report.machine import machine
from benchmarks.report.markdown import figure, table, unit
from benchmarks.report.names import (
    ALGORITHMS,
    ENGINES,
    MAIN_ALGORITHM,
    MAIN_CONCURRENCY,
    MAIN_WORKLOAD,
)
from benchmarks.report.plots import THRESHOLDS, write_plots
from benchmarks.report.records import RESULTS, RoutingRecords, ThresholdPoint
from benchmarks.report.routing_tables import (
    comparison_table,
    curve_table,
    full_table,
    gain_table,
    headline_table,
    step_table,
    threshold_table,
)
from benchmarks.report.slower_than_large import slower_section

ROUTING = "routing"
HOW_TO_READ = (
    f"Throughputs are of the steady window (from when every client had its first response until the"
    f" first ran out of requests) where it is at least {LEAST_STEADY:.0%} of the run, else of the"
    f" whole run, and always of the same in a ratio; the drain after it is listed apart. Latencies"
    f" count from the scheduled arrival."
)
REPRODUCE = """## To reproduce

```
make bench                 # the smoke size of every benchmark, under ten minutes, and this report
make bench FULL=1          # the full size of every benchmark, hours
make bench B=routing       # one at its full size; ARGS=... goes to it
```"""


def write_report(folder: Path = RESULTS) -> Path:
    """Make `REPORT.md` and its pictures in `folder` from the results that lie there."""
    runs = benchmark_run.load_all(folder)
    found = records.load(folder) or RoutingRecords(measured=[])
    if not found.thresholds:
        found = msgspec.structs.replace(found, thresholds=tuned_thresholds(runs))
    pictures = write_plots(folder, found)
    others = {path.name: "" for path in sorted(folder.glob("*.png")) if path.name not in pictures}
    text = report_text(runs, found, {**pictures, **others}, machine(), datetime.now(UTC))
    path = folder / "REPORT.md"
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def report_text(
    runs: Sequence[BenchmarkRun],
    routing: RoutingRecords,
    pictures: Mapping[str, str],
    facts: Mapping[str, str],
    now: datetime,
) -> str:
    """The whole report.

    pictures: files beside it with their captions. One without a caption belongs to the benchmark
        that its name begins with.
    """
    parts = [f"# Benchmarks\n\nWritten {now:%Y-%m-%d %H:%M} UTC.", _machine_table(facts)]
    parts.append(_status(runs))
    if any(run.size == "smoke" for run in runs):
        parts.append(
            "**Smoke sizes show that everything runs. For figures to rely on take the full size.**"
        )
    shown = {name: caption for name, caption in pictures.items() if caption}
    if routing.measured:
        parts += routing_parts(routing, shown)
    if routing.thresholds:
        parts += ["## Delayed batching's optimum, predicted and measured"]
        parts += [threshold_table(routing.thresholds)]
        parts += [_picture(name, shown[name]) for name in shown if name == THRESHOLDS]
    for run in runs:
        own = [name for name in pictures if not pictures[name] and name.startswith(run.name)]
        parts += [f"## {run.name}", *_run_parts(run, own)]
    return "\n\n".join([*(part for part in parts if part), REPRODUCE]) + "\n"


def routing_parts(routing: RoutingRecords, pictures: Mapping[str, str]) -> list[str]:
    """The report's part on `benchmarks.routing`."""
    parts = ["## Systems, algorithms and workloads compared", HOW_TO_READ, *routing.notes]
    figures = headline(routing.measured)
    if figures:
        parts += ["### The figures that stand for all", headline_table(figures)]
    parts += [_picture(name, pictures[name]) for name in pictures if name != THRESHOLDS]
    main = f"{ALGORITHMS[MAIN_ALGORITHM]}, {MAIN_WORKLOAD}"
    for engine, title in ENGINES.items():
        here = [each for each in routing.measured if each.setting.engine == engine]
        if not here:
            continue
        measurements = Measurements(here, engine)
        costs = routing.costs.get(engine)
        scales = ", ".join(f"{scale:g}" for scale in sorted({e.setting.scale for e in here}))
        lengths = f"Lengths are the workloads' times {scales} (`--scale`)."
        for stretch in sorted({e.setting.stretch for e in here if e.setting.stretch}):
            lengths += (
                f" A request is {stretch} tokens of a response, from a random place in it, what"
                " comes before being its prompt (`--stretch`): prompts cost nothing here, so speeds"
                " are those of whole responses."
            )
        parts += [f"### {title}", lengths]
        if costs is not None:
            parts.append(f"Step times: `{json.dumps(msgspec.to_builtins(costs))}`")
        parts += [comparison_table(measurements, workload) for workload in WORKLOADS]
        for heading, found in (
            ("Slower than the large model alone", slower_section(measurements, costs)),
            (f"From 1 to 16 clients: {main}", curve_table(measurements)),
            (
                f"What each part gains: {main}, {MAIN_CONCURRENCY} clients",
                gain_table(measurements),
            ),
        ):
            parts += [f"#### {heading}", found] if found else []
        for workload in dict.fromkeys(each.setting.workload for each in here):
            rows = [each for each in here if each.setting.workload == workload]
            parts += [f"#### Everything measured: {workload}", full_table(rows)]
        parts.append(_configurations(here))
    if routing.steps:
        parts += ["### One step of the small model", step_table(routing.steps)]
    return parts


def tuned_thresholds(runs: Sequence[BenchmarkRun]) -> list[ThresholdPoint]:
    """What `benchmarks.tuning` measured: rows of B small, B large, predicted, measured."""
    lines = [run.last_line for run in runs if run.name == "tuning"]
    return [
        ThresholdPoint(int(name.removeprefix("optimum_")), (small, large), predicted, found)
        for line in lines
        for name, value in line.items()
        if name.startswith("optimum_") and isinstance(value, dict)
        for small, large, predicted, found in value["rows"]
    ]


def _picture(name: str, caption: str) -> str:
    return f"![{caption}]({name})"


def _machine_table(facts: Mapping[str, str]) -> str:
    return table(["machine", ""], [[name, fact] for name, fact in facts.items()])


def _status(runs: Sequence[BenchmarkRun]) -> str:
    rows = [
        [
            f"[{run.name}](#{run.name})",
            f"**FAILED**: {run.failure}" if run.failure else "ok",
            run.size,
            f"{run.seconds:,.0f}",
            run.date,
            f"`{run.command}`",
        ]
        for run in runs
    ]
    return table(["benchmark", "", "size", "seconds", "begun", "command"], rows) if rows else ""


def _run_parts(run: BenchmarkRun, pictures: Sequence[str]) -> list[str]:
    parts = [f"`{run.command}`, {run.size} size, {run.seconds:,.0f} s, begun {run.date}."]
    if run.failure:
        parts.append(f"**FAILED**: {run.failure}")
    parts += [run.about, *(_picture(name, run.name) for name in pictures)]
    if run.name != ROUTING and run.last_line:
        rows = [_figure_row(name, value) for name, value in run.last_line.items()]
        parts.append(table(["figure", "value", "unit"], rows))
    elif run.last_line:
        parts.append(f"Its tables are above. Last line:\n\n```\n{json.dumps(run.last_line)}\n```")
    return parts


def _figure_row(name: str, value: Any) -> list[str]:
    if isinstance(value, bool | str):
        return [f"`{name}`", str(value), ""]
    if isinstance(value, int | float):
        return [f"`{name}`", figure(value), unit(name)]
    return [f"`{name}`", f"`{json.dumps(value)}`", ""]


def _configurations(measured: Sequence[Any]) -> str:
    """Each configuration once, folded away, with what ran under it."""
    users: dict[str, list[str]] = {}
    for each in measured:
        setting = each.setting
        text = json.dumps(each.configuration, ensure_ascii=False)
        name = " ".join(filter(None, (setting.system, setting.algorithm, setting.workload)))
        users.setdefault(text, []).append(name)
    users.pop("{}", None)
    if not users:
        return ""
    lines = [f"- {', '.join(dict.fromkeys(names))}: `{text}`" for text, names in users.items()]
    return "<details><summary>Configurations</summary>\n\n" + "\n".join(lines) + "\n\n</details>"
