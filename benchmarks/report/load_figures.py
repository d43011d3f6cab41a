"""The record of one system under one load: what the report's tables and plots are made of."""

from __future__ import annotations

from typing import Any

import msgspec

from benchmarks.report.names import Engine


class Quantiles(msgspec.Struct, frozen=True):
    """Of one figure over the requests of a run."""

    median: float
    p99: float
    mean: float


class Latencies(msgspec.Struct, frozen=True):
    """Milliseconds, over requests.

    ttft: from the scheduled arrival to the first token.
    tpot: between later tokens, a request's mean; nothing where all responses have one token.
    e2e: from the arrival to the last token.
    """

    ttft: Quantiles
    tpot: Quantiles | None
    e2e: Quantiles


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured.

    algorithm: empty where nothing is routed (`llm-only`).
    stretch: each request was only so many tokens of a response, from a random place in it (nothing:
        whole responses).
    concurrency: clients of a closed loop, 0 for an open one at `rate` requests a second with
        `arrivals` ("poisson" or a trace's name).
    """

    system: str
    algorithm: str = ""
    workload: str
    engine: Engine
    scale: float
    stretch: int | None = None
    concurrency: int = 0
    rate: float = 0.0
    arrivals: str = ""


class LoadFigures(msgspec.Struct, frozen=True, kw_only=True):
    """A run's figures; of several rounds their medians.

    tokens: that came.
    asked: the sum of the requests' max_tokens.
    seconds: of the whole run.
    throughput: tokens a second over the whole run.
    steady_throughput: over the steady window of `steady_seconds`.
    drain_throughput: over the `drain_seconds` from its end to the run's.
    throughput_rounds: the throughput of each round.
    routed_share: of the tokens, those that another model than the first made; nothing where the
        system does not say.
    user_speed: tokens a second that one user sees, 1 / mean TPOT.
    user_speed_e2e: tokens / E2E of a request, the median.
    unfinished: requests that the time limit kept from beginning or cut off; where there are any the
        whole run's figures lack their tokens.
    """

    setting: Setting
    requests: int
    unfinished: int
    tokens: int
    asked: int
    seconds: float
    throughput: float
    throughput_rounds: list[float]
    steady_throughput: float | None = None
    steady_seconds: float = 0.0
    drain_throughput: float | None = None
    drain_seconds: float = 0.0
    latencies_ms: Latencies
    routed_share: float | None = None
    user_speed: float | None = None
    user_speed_e2e: float
    configuration: dict[str, Any] = {}

    @property
    def rounds(self) -> int:
        return len(self.throughput_rounds)

    @property
    def spread(self) -> float:
        """Largest minus smallest throughput of a round, as a share of the median."""
        rounds = self.throughput_rounds
        return (max(rounds) - min(rounds)) / self.throughput
