"""The parts of `benchmarks.gateway`: each asks all proxies the same and adds to their figures."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import uvloop

from benchmarks.proxy.check import extra_events
from benchmarks.proxy.cpu_time import cpu_seconds, resident_bytes, wait_until_idle
from benchmarks.proxy.load import RepliesSeen, closed_loop, in_turns, open_loop
from benchmarks.proxy.predicted import predicted
from benchmarks.proxy.prompts import requests
from benchmarks.proxy.proxy_process import Proxy
from benchmarks.proxy.streams import Flow, hold_streams
from benchmarks.proxy.upstreams import Upstreams

T = TypeVar("T")

STEP_S = 0.02
TOKENS = 64
COUNTS = (64, 256)
_FEWEST, _MOST = 4, 8192
_AT_A_TIME = 20
_TRIES = 2  # something else may have had the machine


@dataclass(slots=True)
class ProxyFigures:
    """A proxy with its figures by name, and what went wrong."""

    proxy: Proxy
    figures: dict[str, float] = field(default_factory=dict)
    failures: dict[str, int] = field(default_factory=dict)
    extra_events: int = 0

    def cpu(self) -> float:
        """Seconds so far; 0 where there is no process."""
        return 0.0 if self.proxy.pid is None else cpu_seconds(self.proxy.pid)

    def settle(self) -> None:
        if self.proxy.pid is not None:
            wait_until_idle(self.proxy.pid)

    def note(self, failures: dict[str, int]) -> None:
        for why, count in failures.items():
            self.failures[why] = self.failures.get(why, 0) + count

    def say(self, what: str) -> None:
        print(f"{self.proxy.name}: {what}", file=sys.stderr, flush=True)


def check(subjects: Sequence[ProxyFigures]) -> None:
    """That each answers rightly. Raises StartError."""
    for each in subjects:
        each.extra_events = extra_events(each.proxy)


def latency(subjects: Sequence[ProxyFigures], rounds: int) -> None:
    """One request after another, of one token: `p50_ms` and `p99_ms`."""
    print(f"one request after another, {rounds} rounds", file=sys.stderr, flush=True)
    asked = [requests(each.proxy.model, 1, stream=False) for each in subjects]
    ports = [each.proxy.port for each in subjects]
    for each, seen in zip(
        subjects, uvloop.run(in_turns(ports, asked, rounds, _AT_A_TIME)), strict=True
    ):
        _latencies(each, [seen], "")


def open_latency(
    subjects: Sequence[ProxyFigures], rate: float, seconds: float, rounds: int
) -> None:
    """Poisson arrivals at a moderate rate: `open_p50_ms` and `open_p99_ms`."""
    seen: list[list[RepliesSeen]] = [[] for _ in subjects]
    for turn in range(rounds):
        for each, found in _rotated(list(zip(subjects, seen, strict=True)), turn):
            each.say(f"{rate:g} requests a second for {seconds:g} s")
            asked = requests(each.proxy.model, 1, stream=False)
            found.append(uvloop.run(open_loop(each.proxy.port, asked, rate, seconds)))
            each.settle()
    for each, found in zip(subjects, seen, strict=True):
        _latencies(each, found, "open_")


def throughput(subjects: Sequence[ProxyFigures], clients: int, seconds: float, rounds: int) -> None:
    """A closed loop of one-token requests: `rps_N`, `cpu_ms_per_request_N` of each.

    And `predicted_share_N` of ours with a predictor.
    """
    seen: list[list[RepliesSeen]] = [[] for _ in subjects]
    before = {each.proxy.name: predicted(each.proxy.port) for each in _predicting(subjects)}
    for turn in range(rounds):
        for each, found in _rotated(list(zip(subjects, seen, strict=True)), turn):
            each.say(f"{clients} clients for {seconds:g} s")
            asked = requests(each.proxy.model, 1, stream=False)
            loop = closed_loop(each.proxy.port, asked, clients, seconds, cpu=each.cpu)
            found.append(uvloop.run(loop))
            each.note(found[-1].failures)
            each.settle()
    for each, found in zip(subjects, seen, strict=True):
        each.figures[f"rps_{clients}"] = statistics.median(one.rate for one in found)
        answered = sum(len(one.replies) for one in found)
        if each.proxy.pid is not None and answered:
            spent = sum(one.cpu_s for one in found)
            each.figures[f"cpu_ms_per_request_{clients}"] = spent / answered * 1e3
    for each in _predicting(subjects):
        share = predicted(each.proxy.port).share_since(before[each.proxy.name])
        each.figures[f"predicted_share_{clients}"] = share


def saturation(subjects: Sequence[ProxyFigures], streams: int, seconds: float, rounds: int) -> None:
    """Streams as fast as they go: `tokens_per_second`, `cpu_s_per_million_tokens`."""
    flows: list[list[Flow]] = [[] for _ in subjects]
    for turn in range(rounds):
        for each, found in _rotated(list(zip(subjects, flows, strict=True)), turn):
            each.say(f"{streams} streams as fast as they go")
            found.append(_hold(each, streams, 0.1, seconds))
    for each, found in zip(subjects, flows, strict=True):
        rates = [_tokens(each, flow) / flow.seconds for flow in found]
        each.figures["tokens_per_second"] = statistics.median(rates)
        _cpu_per_token(each, found, "")


def paced(
    each: ProxyFigures, upstreams: Upstreams, seconds: float, counts: Sequence[int], most: int
) -> None:
    """Streams with a token every STEP_S: how `counts` come through, and `streams_held`."""
    upstreams.pace(0.0, STEP_S)
    try:
        flows: dict[int, Flow] = {}

        def held(count: int) -> bool:
            if count in flows:
                return is_held(each, flows[count])
            for _ in range(_TRIES):
                flows[count] = _hold(each, count, STEP_S * TOKENS, seconds)
                p99_ms = flows[count].quantile_s(0.99) * 1e3
                each.say(f"{count} streams, p99 between tokens {p99_ms:.1f} ms")
                if is_held(each, flows[count]):
                    return True
            return False

        each.figures["streams_held"] = most_held(held, counts[0], most)
        for count in counts:
            held(count)
            flow = flows[count]
            each.figures[f"paced_tokens_per_second_{count}"] = _tokens(each, flow) / flow.seconds
            each.figures[f"ttft_ms_{count}"] = flow.first_s * 1e3
            each.figures[f"gap_p99_ms_{count}"] = flow.quantile_s(0.99) * 1e3
            each.figures[f"worst_delay_ms_{count}"] = (flow.quantile_s(1.0) - STEP_S) * 1e3
            _cpu_per_token(each, [flow], f"_{count}")
    finally:
        upstreams.pace(0.0, 0.0)


def is_held(each: ProxyFigures, flow: Flow) -> bool:
    """No failure, p99 between tokens within twice the programmed time, and most tokens there."""
    wanted = flow.count / STEP_S * flow.seconds
    return (
        not flow.failures
        and flow.quantile_s(0.99) <= 2 * STEP_S
        and _tokens(each, flow) >= 0.8 * wanted
    )


def most_held(held: Callable[[int], bool], first: int, most: int) -> int:
    """The most streams of a ladder that doubles from `first`, and halfway up to the next.

    Down from `first` where not even that is held.
    """
    if not held(first):
        while first > _FEWEST:
            first //= 2
            if held(first):
                return first
        return 0
    while 2 * first <= min(most, _MOST) and held(2 * first):
        first *= 2
    between = first + first // 2
    return between if between <= most and held(between) else first


def memory(subjects: Sequence[ProxyFigures]) -> None:
    """`memory_mb` as it is now."""
    for each in subjects:
        if each.proxy.pid is not None:
            each.figures["memory_mb"] = resident_bytes(each.proxy.pid) / 2**20


def _hold(each: ProxyFigures, count: int, ramp_s: float, seconds: float) -> Flow:
    asked = requests(each.proxy.model, TOKENS, stream=True)
    flow = uvloop.run(
        hold_streams(each.proxy.port, asked, count, ramp_s=ramp_s, seconds=seconds, cpu=each.cpu)
    )
    each.note(flow.failures)
    time.sleep(0.1)
    each.settle()
    return flow


def _tokens(each: ProxyFigures, flow: Flow) -> float:
    return flow.events * TOKENS / (TOKENS + each.extra_events)


def _cpu_per_token(each: ProxyFigures, flows: Sequence[Flow], end: str) -> None:
    tokens = sum(_tokens(each, flow) for flow in flows)
    if each.proxy.pid is not None and tokens:
        spent = sum(flow.cpu_s for flow in flows)
        each.figures[f"cpu_s_per_million_tokens{end}"] = spent / tokens * 1e6


def _latencies(each: ProxyFigures, found: Sequence[RepliesSeen], prefix: str) -> None:
    for seen in found:
        each.note(seen.failures)
    times = np.concatenate([seen.latencies() for seen in found]) * 1e3
    if len(times):
        each.figures[f"{prefix}p50_ms"], each.figures[f"{prefix}p99_ms"] = map(
            float, np.quantile(times, [0.5, 0.99])
        )


def _predicting(subjects: Sequence[ProxyFigures]) -> list[ProxyFigures]:
    return [each for each in subjects if each.proxy.predicts]


def _rotated(items: list[T], by: int) -> list[T]:
    at = by % len(items)
    return items[at:] + items[:at]
