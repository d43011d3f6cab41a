"""The few figures that stand for all of `benchmarks.routing`: its last line."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.load.workload import WORKLOADS
from benchmarks.report.comparison import Measurements, ratio
from benchmarks.report.load_figures import LoadFigures
from benchmarks.report.names import (
    ALGORITHMS,
    LLM_ONLY,
    MAIN_ALGORITHM,
    MAIN_CONCURRENCY,
    MAIN_WORKLOAD,
    OURS,
    STD_SERVING,
    Engine,
)

SGLANG = "ratio_std_serving_min"
"""The one figure that SGLang alone has."""

SGLANG_CONCURRENCIES = (4, 8)

AIMS = {"min_ratio": 2.01, "scale_1_16": 8.61, "speed_kept_1_16": 0.517, SGLANG: 2.01}
"""At least these, all but the last on the profile engine."""

PREFIXES: dict[Engine, str] = {"profile": "", "real": "real_", "sglang": "sglang_"}
"""What figures of an engine begin with."""

MEANING = {
    "combinations": "algorithm × workload combinations in min_ratio and max_ratio (15 in all)",
    "min_ratio": "ours / the stronger of official and std-serving, the least over combinations",
    "max_ratio": "the same, the most",
    **{
        f"llm_only_ratio_{name}": f"ours / llm-only, {title}, {MAIN_WORKLOAD}"
        for name, title in ALGORITHMS.items()
    },
    "scale_1_16": "ours, throughput with 16 clients / with 1",
    "speed_kept_1_16": "ours, a user's tok/s among 16 / alone",
    "high_effort_kept": "ours, throughput at high-effort / at low-effort",
    "std_high_effort_kept": "std-serving, the same",
    SGLANG: "ours / std-serving, the least over algorithms, 4 and 8 clients, " + MAIN_WORKLOAD,
}
"""What each figure is. Throughputs, at concurrency 4 and for R2R where nothing else is said."""


def headline(measured: Sequence[LoadFigures]) -> dict[str, float]:
    """The profile engine's figures under their names, others' with their engine's prefix.

    A figure whose measurements are missing is missing.
    """
    found = {}
    for engine, prefix in PREFIXES.items():
        figures = of_engine(Measurements(measured, engine))
        found.update({prefix + name: round(value, 4) for name, value in figures.items()})
    ratios = std_serving_ratios(Measurements(measured, "sglang"))
    return {**found, SGLANG: round(min(ratios), 4)} if ratios else found


def engine_of(name: str) -> Engine:
    """The engine that a figure of the headline is of."""
    if name == SGLANG:
        return "sglang"
    return next(
        (e for e, prefix in PREFIXES.items() if prefix and name.startswith(prefix)), "profile"
    )


def std_serving_ratios(measurements: Measurements) -> list[float]:
    """Ours over std-serving, for each algorithm and number of clients."""
    pairs = [
        [measurements.find(s, a, MAIN_WORKLOAD, n) for s in (OURS, STD_SERVING)]
        for a in ALGORITHMS
        for n in SGLANG_CONCURRENCIES
    ]
    return [ratio(ours, other) for ours, other in pairs if ours and other]


def of_engine(measurements: Measurements) -> dict[str, float]:
    """The figures of one engine."""
    found: dict[str, float] = {}
    ratios = []
    for algorithm in ALGORITHMS:
        for workload in WORKLOADS:
            ours = measurements.find(OURS, algorithm, workload)
            baseline = measurements.stronger_baseline(algorithm, workload)
            if ours and baseline:
                ratios.append(ratio(ours, baseline))
    if ratios:
        found = {
            "combinations": len(ratios),
            "min_ratio": min(ratios),
            "max_ratio": max(ratios),
        }
    for algorithm in ALGORITHMS:
        ours = measurements.find(OURS, algorithm, MAIN_WORKLOAD)
        llm_only = measurements.find(LLM_ONLY, algorithm, MAIN_WORKLOAD)
        if ours and llm_only:
            found[f"llm_only_ratio_{algorithm}"] = ratio(ours, llm_only)
    alone, among = (_main(measurements, OURS, concurrency=n) for n in (1, 16))
    if alone and among:
        found["scale_1_16"] = ratio(among, alone)
        if alone.user_speed and among.user_speed:
            found["speed_kept_1_16"] = among.user_speed / alone.user_speed
    for system, name in ((OURS, "high_effort_kept"), (STD_SERVING, "std_high_effort_kept")):
        low, high = (_main(measurements, system, w) for w in (MAIN_WORKLOAD, "high-effort"))
        if low and high:
            found[name] = ratio(high, low)
    return found


def _main(
    measurements: Measurements,
    system: str,
    workload: str = MAIN_WORKLOAD,
    concurrency: int = MAIN_CONCURRENCY,
) -> LoadFigures | None:
    return measurements.find(system, MAIN_ALGORITHM, workload, concurrency)
