"""Where routing is slower than the large model alone, and why: the cost model filled in."""

from __future__ import annotations

from benchmarks.load.workload import WORKLOADS
from benchmarks.report.comparison import Measurements, basis, ratio, speed
from benchmarks.report.cost_model import (
    PairCosts,
    Steps,
    at,
    cycle_ms,
    in_step_ms,
    large_alone_ms,
    least_ms,
    steps,
)
from benchmarks.report.load_figures import LoadFigures
from benchmarks.report.markdown import MISSING, figure, table
from benchmarks.report.names import ALGORITHMS, LLM_ONLY, OURS
from benchmarks.report.routing_tables import clients

INTRODUCTION = (
    "A token costs the pair a step of the small model and p steps of the large one (p: the share"
    " of tokens that the large model makes). All in step, one model at a time, that is"
    " `L_slm(b)/b + p · L_llm(bp)/(bp)` of time per token, b being the requests; `least` is what"
    " no schedule can go below: the largest batches there can be, overlapping where the models"
    " have devices of their own, and never less than a user's own cycle `L_slm + p · L_llm`"
    " divided among the users. The large model alone needs `L_llm(b)/b`."
)


def slower_section(measurements: Measurements, costs: PairCosts | None) -> str:
    """A table of all such measurements with a sentence each; says so where there are none."""
    found = _slower(measurements)
    if not found:
        compared = any(each.setting.system == LLM_ONLY for each in measurements.all)
        return (
            "Ours is nowhere slower than `llm-only`."
            if compared
            else "`llm-only` was not measured."
        )
    titles = ["algorithm", "workload", "clients", "ours tok/s", "llm-only tok/s", "ratio", "p"]
    titles += ["all in step, ms a token", "least, ms a token", "large alone, ms a token"]
    rows, reasons = [], []
    for ours, alone in found:
        setting = ours.setting
        on = basis([ours, alone])
        name = ALGORITHMS.get(setting.algorithm, setting.algorithm)
        cells = [name, setting.workload, str(setting.concurrency)]
        cells += [figure(speed(ours, on)), figure(speed(alone, on)), f"{ratio(ours, alone):.3f} ×"]
        if costs is None or ours.routed_share is None:
            rows.append([*cells, *[MISSING] * 4])
            continue
        made = steps(setting.algorithm, ours.routed_share)
        n = setting.concurrency
        least = least_ms(costs, made, n)
        figures = (ours.routed_share, in_step_ms(costs, made, n), least, large_alone_ms(costs, n))
        rows.append([*cells, *map(figure, figures)])
        why = explain(costs, made, n, speed(ours, on), speed(alone, on))
        reasons.append(f"- {name}, {setting.workload}, {clients(n)}: {why}")
    return "\n\n".join([INTRODUCTION, table(titles, rows), "\n".join(reasons)]).rstrip()


def explain(costs: PairCosts, made: Steps, n: int, ours: float, alone: float) -> str:
    """Why `ours` (tok/s of n users) is less than `alone`, the large model's, with the figures."""
    small, large = costs.small_ms[0], costs.large_ms[0]
    least, cycle = least_ms(costs, made, n), cycle_ms(costs, made)
    ingest = costs.ingest_ms * (1 - made.large)
    filled = f"{made.small:.2f} · {small:.1f} + {made.large:.2f} · {large:.1f}"
    filled += f" + {ingest:.2f} (reading the small model's tokens)" if ingest else ""
    text = f"a user's cycle is {filled} = {cycle:.1f} ms, against {at(costs.large_ms, n):.1f} ms"
    text += f" a step of the large model alone with {n}; at least {least:.2f} ms a token, so"
    text += f" {1e3 / least:,.0f} tok/s at most. "
    if 1e3 / least <= alone:
        text += f"The large model alone makes {alone:,.0f}: no schedule of this pair reaches it."
    else:
        waits = 1e3 / ours - least
        text += f"Ours makes {ours:,.0f}: the other {waits:.2f} ms a token are waiting (for a model"
        text += " that is in a step, for a batch to fill) and hand-offs, and they decide it."
    return text


def _slower(measurements: Measurements) -> list[tuple[LoadFigures, LoadFigures]]:
    found = []
    counts = sorted({each.setting.concurrency for each in measurements.all})
    for workload in WORKLOADS:
        for algorithm in ALGORITHMS:
            for n in counts:
                ours = measurements.find(OURS, algorithm, workload, n)
                alone = measurements.find(LLM_ONLY, algorithm, workload, n)
                if ours and alone and ratio(ours, alone) < 1:
                    found.append((ours, alone))
    return found
