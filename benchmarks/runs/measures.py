"""Figures of a load's run, from nothing but what its clients saw."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import numpy as np

from benchmarks.load.loops import LoadResult, ServedItem
from benchmarks.report.load_figures import Latencies, LoadFigures, Quantiles, Setting


def measure(
    run: LoadResult, setting: Setting, configuration: dict[str, Any] | None = None
) -> LoadFigures:
    """One run's figures. Raises ValueError for a run in which no request ended."""
    if not run.served:
        raise ValueError(f"{setting.system}: no request ended within the time limit")
    tokens = sum(len(served.outcome.times) for served in run.served)
    seconds = run.ended - run.began
    spacing = [gap for served in run.served if (gap := tpot_s(served)) is not None]
    steady = drain = None
    if run.steady is not None:
        steady = tokens_per_s(run.served, *run.steady)
        drain = tokens_per_s(run.served, run.steady[1], run.ended)
    return LoadFigures(
        setting=setting,
        requests=len(run.served),
        unfinished=run.unbegun + run.abandoned,
        tokens=tokens,
        asked=sum(served.item.max_tokens for served in run.served),
        seconds=seconds,
        throughput=tokens / seconds,
        throughput_rounds=[tokens / seconds],
        steady_throughput=steady,
        steady_seconds=run.steady[1] - run.steady[0] if run.steady else 0.0,
        drain_throughput=drain,
        drain_seconds=run.ended - run.steady[1] if run.steady else 0.0,
        latencies_ms=Latencies(
            ttft=_milliseconds(s.outcome.times[0] - s.scheduled for s in run.served),
            tpot=_milliseconds(spacing) if spacing else None,
            e2e=_milliseconds(map(e2e_s, run.served)),
        ),
        routed_share=routed_share(run.served),
        user_speed=1 / statistics.fmean(spacing) if any(spacing) else None,
        user_speed_e2e=statistics.median(
            len(served.outcome.times) / e2e_s(served) for served in run.served
        ),
        configuration=configuration or {},
    )


def over_rounds(rounds: Sequence[LoadFigures]) -> LoadFigures:
    """The median of each figure over rounds of one setting.

    Counts are sums, and a figure that some round lacks is missing. Raises ValueError when the
    rounds are of several settings.
    """
    if len({msgspec.json.encode(each.setting) for each in rounds}) != 1:
        raise ValueError("rounds of one setting are needed")
    first = rounds[0]
    fields = {name: _middle([getattr(each, name) for each in rounds]) for name in _MEDIANS}
    sums = {name: sum(getattr(each, name) for each in rounds) for name in _SUMS}
    names = ("ttft", "tpot", "e2e")
    latencies = {
        name: _middle_quantiles([getattr(each.latencies_ms, name) for each in rounds])
        for name in names
    }
    return msgspec.structs.replace(
        first,
        throughput_rounds=[speed for each in rounds for speed in each.throughput_rounds],
        latencies_ms=msgspec.structs.replace(first.latencies_ms, **latencies),
        **fields,
        **sums,
    )


def tokens_per_s(served: Iterable[ServedItem], begin: float, end: float) -> float | None:
    """Tokens that arrived after `begin`, until `end`, a second; nothing for no time."""
    if end <= begin:
        return None
    times = (time for each in served for time in each.outcome.times)
    return sum(begin < time <= end for time in times) / (end - begin)


def tpot_s(served: ServedItem) -> float | None:
    """Mean seconds between a request's tokens; nothing where there is only one."""
    times = served.outcome.times
    return (times[-1] - times[0]) / (len(times) - 1) if len(times) > 1 else None


def e2e_s(served: ServedItem) -> float:
    """Seconds from a request's scheduled arrival to its last token."""
    return served.outcome.times[-1] - served.scheduled


def routed_share(served: Iterable[ServedItem]) -> float | None:
    """The share of tokens that another model than number 0 made; nothing where any is unknown."""
    models = [model for each in served for model in each.outcome.models]
    if not models or min(models) < 0:
        return None
    return sum(model > 0 for model in models) / len(models)


_MEDIANS = (
    "seconds",
    "throughput",
    "steady_throughput",
    "steady_seconds",
    "drain_throughput",
    "drain_seconds",
    "routed_share",
    "user_speed",
    "user_speed_e2e",
)
_SUMS = ("requests", "unfinished", "tokens", "asked")


def _milliseconds(seconds: Iterable[float]) -> Quantiles:
    values = np.array(list(seconds)) * 1e3
    median, p99 = np.quantile(values, (0.5, 0.99))
    return Quantiles(float(median), float(p99), float(values.mean()))


def _middle(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if len(known) == len(values) else None


def _middle_quantiles(values: Sequence[Quantiles | None]) -> Quantiles | None:
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    columns = [
        statistics.median(getattr(q, name) for q in known) for name in ("median", "p99", "mean")
    ]
    return Quantiles(*columns)
