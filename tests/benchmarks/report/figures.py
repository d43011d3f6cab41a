"""Measured figures made by hand."""

from __future__ import annotations

from benchmarks.load.workload import WORKLOADS
from benchmarks.report.load_figures import Latencies, LoadFigures, Quantiles, Setting
from benchmarks.report.names import ALGORITHMS, LLM_ONLY, OFFICIAL, OURS, STD_SERVING, Engine


def measured(
    system: str,
    throughput: float,
    *,
    algorithm: str = "r2r",
    workload: str = "low-effort",
    engine: Engine = "profile",
    concurrency: int = 4,
    user_speed: float = 60.0,
    steady: float | None = None,
    steady_seconds: float = 8.0,
    unfinished: int = 0,
    share: float | None = 0.35,
) -> LoadFigures:
    setting = Setting(
        system=system,
        algorithm=algorithm,
        workload=workload,
        engine=engine,
        scale=0.25,
        concurrency=concurrency,
        rate=0.0 if concurrency else 2.5,
        arrivals="" if concurrency else "poisson",
    )
    middle = Quantiles(12.5, 40.25, 15.0)
    return LoadFigures(
        setting=setting,
        requests=32,
        unfinished=unfinished,
        tokens=4321,
        asked=4400,
        seconds=10.0,
        throughput=throughput,
        throughput_rounds=[throughput],
        steady_throughput=steady,
        steady_seconds=steady_seconds if steady else 0.0,
        latencies_ms=Latencies(middle, middle, middle),
        routed_share=share,
        user_speed=user_speed,
        user_speed_e2e=55.5,
        configuration={"server": system, "context": 512},
    )


def full_set() -> list[LoadFigures]:
    """Ours twice to three times the stronger baseline everywhere; concurrency 1 to 16 for R2R."""
    found = [measured(LLM_ONLY, 130.0, algorithm="", workload=w, share=None) for w in WORKLOADS]
    for i, algorithm in enumerate(ALGORITHMS):
        for j, workload in enumerate(WORKLOADS):
            speeds = {OURS: 200 + 10 * i - j, STD_SERVING: 100 - 20 * j, OFFICIAL: 50 + 20 * j}
            for system, speed in speeds.items():
                found.append(measured(system, speed, algorithm=algorithm, workload=workload))
    by_clients = {1: (60.0, 60.0), 2: (110.0, 55.0), 8: (300.0, 37.5), 16: (540.0, 33.0)}
    for n, (total, user) in by_clients.items():
        found.append(measured(OURS, total, concurrency=n, user_speed=user))
        found.append(measured(STD_SERVING, total / 3, concurrency=n, user_speed=user / 3))
    found += [measured("lockstep", 120.0), measured("eager", 180.0)]
    found.append(measured(OURS, 150.0, concurrency=0))
    return found
