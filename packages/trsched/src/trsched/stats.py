"""Counters that subservers keep and the metrics page reads (no locks: each has one writer)."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

from trsched.step_counters import StepCounters


@dataclass(slots=True)
class Histogram:
    """Counts per upper bound, the last being +inf; `total` is the sum of what was observed."""

    bounds: tuple[float, ...]
    counts: list[int] = field(init=False)
    total: float = 0.0

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def observe(self, value: float) -> None:
        """Count `value` in the first bucket whose bound is not below it."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


BATCH_BOUNDS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
SECONDS_BOUNDS = (
    1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1, 0.2, 0.5, 1.0
)  # fmt: skip


@dataclass(slots=True)
class SubserverStats:
    """State of one subserver.

    handoff_seconds: from the routing decision at the sender to the start of the batch that contains
    the request here. handoff_ready_seconds: the same up to the moment the request waits here.
    router_errors: calls of route, send and receive that failed, those for single rows included.
    """

    name: str
    step_counters: StepCounters
    alive: bool = True
    waiting: int = 0
    running: int = 0
    pending: int = 0
    threshold: int = 1
    sequences_used: int = 0
    kv_tokens_used: int = 0
    kv_tokens_capacity: int = 0
    kv_reclaims: int = 0
    steps: int = 0
    tokens_committed: int = 0
    handoffs_sent: int = 0
    handoffs_received: int = 0
    stale_messages: int = 0
    router_errors: int = 0
    batch_size: Histogram = field(default_factory=lambda: Histogram(BATCH_BOUNDS))
    step_seconds: Histogram = field(default_factory=lambda: Histogram(SECONDS_BOUNDS))
    handoff_seconds: Histogram = field(default_factory=lambda: Histogram(SECONDS_BOUNDS))
    handoff_ready_seconds: Histogram = field(default_factory=lambda: Histogram(SECONDS_BOUNDS))


@dataclass(frozen=True, slots=True)
class TuningStatus:
    """What the tuner knows and expects; speeds in committed tokens a second.

    active: the N that this is for. routing[i][j]: estimated probability that a step of model i ends
    with its request at model j. step_seconds[i]: estimated seconds of a step of model i by batch
    size, from 1 to N. thresholds: B by model. predicted, measured: with these; measured over the
    last seconds. alone: predicted for each model if it served all requests by itself.
    """

    active: int
    routing: tuple[tuple[float, ...], ...]
    step_seconds: tuple[tuple[float, ...], ...]
    thresholds: tuple[int, ...]
    predicted: float
    measured: float
    alone: tuple[float, ...]


@dataclass(slots=True)
class GroupStatus:
    """A snapshot of a group. queued: requests not yet admitted; active: admitted, not yet ended.

    tuning: what delayed batching goes by, None unless it is tuned while serving.
    """

    name: str
    queued: int
    active: int
    max_active: int
    draining: bool
    finished: dict[str, int]
    subservers: list[SubserverStats]
    tuning: TuningStatus | None = None
