"""The tables of `benchmarks.routing` in the report, as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.report.comparison import Measurements, basis, ratio, speed
from benchmarks.report.headline import AIMS, MEANING, PREFIXES, engine_of
from benchmarks.report.load_figures import LoadFigures, Quantiles, Setting
from benchmarks.report.markdown import MISSING, figure, table
from benchmarks.report.names import (
    ALGORITHMS,
    GAIN_STAGES,
    MAIN_ALGORITHM,
    MAIN_CONCURRENCY,
    MAIN_WORKLOAD,
    OFFICIAL,
    OURS,
    STD_SERVING,
    SYSTEMS,
    rank,
)
from benchmarks.report.records import StepBreakdown, ThresholdPoint


def headline_table(figures: dict[str, float]) -> str:
    """Each figure with what it means, and its aim where it has one."""
    rows = []
    for name, value in figures.items():
        engine = engine_of(name)
        aim = AIMS.get(name)
        met = "" if aim is None else f"≥ {aim}: {'met' if value >= aim else '**missed**'}"
        meaning = MEANING.get(name.removeprefix(PREFIXES[engine]), "")
        unit = "" if name.endswith("combinations") else " ×"
        rows.append([f"`{name}`", engine, meaning, figure(value) + unit, met])
    return table(["figure", "engine", "what it is", "value", "aim"], rows)


def comparison_table(measurements: Measurements, workload: str) -> str:
    """Throughput of every system with every algorithm, and ours over the stronger baseline."""
    rows = []
    for system, meaning in SYSTEMS.items():
        found = [measurements.find(system, algorithm, workload) for algorithm in ALGORITHMS]
        if any(found):
            speeds = [speed(each, basis([each])) if each else None for each in found]
            rows.append([f"`{system}`: {meaning}", *map(figure, speeds)])
    if not rows:
        return ""
    ratios = []
    for algorithm in ALGORITHMS:
        ours = measurements.find(OURS, algorithm, workload)
        baseline = measurements.stronger_baseline(algorithm, workload)
        ratios.append(f"**{ratio(ours, baseline):.2f} ×**" if ours and baseline else MISSING)
    rows.append([f"`{OURS}` over the stronger of `{OFFICIAL}` and `{STD_SERVING}`", *ratios])
    title = f"tok/s, {workload}, {MAIN_CONCURRENCY} clients"
    return table([title, *ALGORITHMS.values()], rows)


def full_table(measured: Sequence[LoadFigures]) -> str:
    """Every figure of every setting."""
    titles = ["system", "algorithm", "load", "tok/s whole run", "steady tok/s (s)"]
    titles += ["drain tok/s (s)", "TTFT ms, median / p99", "TPOT ms, median / p99"]
    titles += ["E2E s, median / p99", "large model's tokens, %", "a user's tok/s: 1/TPOT / E2E"]
    titles += ["requests", "tokens made / asked", "rounds (spread %)"]
    ordered = sorted(measured, key=lambda each: _order(each.setting))
    return table(titles, [_full_row(each) for each in ordered])


def clients(n: int) -> str:
    return f"{n} client" if n == 1 else f"{n} clients"


def load_name(setting: Setting) -> str:
    """The load of a setting, in few words."""
    if setting.concurrency:
        return clients(setting.concurrency)
    return f"{setting.rate:.3g} requests/s, {setting.arrivals or 'open'}"


def gain_table(measurements: Measurements) -> str:
    """What each of our parts adds."""
    rows: list[list[str]] = []
    before: float | None = None
    found = [measurements.find(name, MAIN_ALGORITHM, MAIN_WORKLOAD) for name in GAIN_STAGES]
    stages = [each for each in found if each is not None]
    on = basis(stages)
    for stage in stages:
        here = speed(stage, on)
        step = MISSING if before is None else f"{here / before:.2f} ×"
        name = stage.setting.system
        rows.append([f"`{name}`: {SYSTEMS[name]}", figure(here), step])
        before = here
    return table(["stage", "tok/s", "over the one before"], rows) if len(rows) > 1 else ""


def curve_table(measurements: Measurements) -> str:
    """Throughput and a user's speed over the number of clients."""
    counts = sorted({each.setting.concurrency for each in measurements.all})
    rows = []
    for system in SYSTEMS:
        found = [measurements.find(system, MAIN_ALGORITHM, MAIN_WORKLOAD, n) for n in counts]
        if sum(each is not None for each in found) > 1:
            cells = [
                f"{figure(speed(each, basis([each])))} / {figure(each.user_speed)}"
                if each
                else MISSING
                for each in found
            ]
            rows.append([f"`{system}`", *cells])
    return table(["tok/s of all / of a user", *map(clients, counts)], rows) if rows else ""


def step_table(breakdowns: Sequence[StepBreakdown]) -> str:
    """Milliseconds and share of each part of a small model's step."""
    rows = [
        [f"`{each.system}`", each.engine, part, figure(value), f"{100 * value / total:.1f}"]
        for each in breakdowns
        if (total := sum(each.parts_ms.values()))
        for part, value in each.parts_ms.items()
    ]
    return table(["system", "engine", "part", "ms", "% of the step"], rows)


def threshold_table(points: Sequence[ThresholdPoint]) -> str:
    """For each N the predicted optimum, and what was measured there and at the measured best."""
    rows = []
    for n in sorted({point.n for point in points}):
        here = [point for point in points if point.n == n]
        best = max(here, key=lambda point: point.predicted)
        tried = [point for point in here if point.measured is not None]
        quickest = max(tried, key=lambda point: point.measured or 0.0, default=None)
        there, most = best.measured, quickest.measured if quickest else None
        short = MISSING if not there or not most else f"{100 * (1 - there / most):.2f}"
        rows.append(
            [
                str(n),
                str(best.thresholds),
                figure(best.predicted),
                figure(there),
                str(quickest.thresholds) if quickest else MISSING,
                figure(most),
                short,
                f"{len(tried)} of {len(here)}",
            ]
        )
    titles = ["N", "predicted B*", "predicted tok/s", "measured there, tok/s", "measured best B"]
    titles += ["measured tok/s", "predicted optimum below it, %", "B measured"]
    return table(titles, rows)


def _order(setting: Setting) -> tuple[object, ...]:
    load = (setting.concurrency == 0, setting.concurrency, setting.rate, setting.arrivals)
    return (rank(setting.algorithm), rank(setting.system), *load)


def _full_row(each: LoadFigures) -> list[str]:
    setting, latency = each.setting, each.latencies_ms
    share = None if each.routed_share is None else 100 * each.routed_share
    cut = f" (+{each.unfinished} cut off or not begun)" if each.unfinished else ""
    return [
        f"`{setting.system}`" if setting.system != OURS else f"**`{setting.system}`**",
        ALGORITHMS.get(setting.algorithm, setting.algorithm or MISSING),
        load_name(setting),
        figure(each.throughput),
        _over(each.steady_throughput, each.steady_seconds),
        _over(each.drain_throughput, each.drain_seconds),
        _pair(latency.ttft),
        _pair(latency.tpot),
        _pair(latency.e2e, 1e-3),
        figure(share, 3),
        f"{figure(each.user_speed)} / {figure(each.user_speed_e2e)}",
        f"{each.requests}{cut}",
        f"{each.tokens:,} / {each.asked:,}",
        f"{each.rounds} ({100 * each.spread:.1f})",
    ]


def _over(value: float | None, seconds: float) -> str:
    return MISSING if value is None else f"{figure(value)} ({seconds:.1f})"


def _pair(quantiles: Quantiles | None, factor: float = 1.0) -> str:
    if quantiles is None:
        return MISSING
    return f"{figure(quantiles.median * factor)} / {figure(quantiles.p99 * factor)}"
