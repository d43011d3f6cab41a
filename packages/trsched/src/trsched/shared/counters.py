"""Counters that subservers keep and the metrics page reads (no locks: each has one writer)."""

from __future__ import annotations

from bisect import bisect_left
from ctypes import Array, Structure, c_bool, c_double, c_int64
from dataclasses import dataclass
from typing import ClassVar

from trsched.shared.arena import Arena
from trsched.shared.step_counters import StepCounters


class Histogram(Structure):
    """Counts per upper bound, the last being +inf; `total` is the sum of what was observed."""

    bounds: ClassVar[tuple[float, ...]]

    counts: Array[c_int64]
    total: float

    def observe(self, value: float) -> None:
        """Count `value` in the first bucket whose bound is not below it."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


class BatchHistogram(Histogram):
    """Of batch sizes."""

    bounds = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
    _fields_: ClassVar = (("counts", c_int64 * (len(bounds) + 1)), ("total", c_double))


class SecondsHistogram(Histogram):
    """Of durations."""

    bounds = (
        1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1, 0.2, 0.5, 1.0
    )  # fmt: skip
    _fields_: ClassVar = (("counts", c_int64 * (len(bounds) + 1)), ("total", c_double))


class SubserverStats(Structure):
    """State of one subserver.

    handoff_seconds: from the routing decision at the sender to the start of the batch that contains
        the request here.
    handoff_ready_seconds: the same up to the moment the request waits here.
    router_errors: calls of route, send and receive that failed, those for single rows included.
    """

    _fields_: ClassVar = (
        ("alive", c_bool),
        ("waiting", c_int64),
        ("running", c_int64),
        ("pending", c_int64),
        ("threshold", c_int64),
        ("sequences_used", c_int64),
        ("kv_tokens_used", c_int64),
        ("kv_tokens_capacity", c_int64),
        ("kv_reclaims", c_int64),
        ("steps", c_int64),
        ("tokens_committed", c_int64),
        ("handoffs_sent", c_int64),
        ("handoffs_received", c_int64),
        ("stale_messages", c_int64),
        ("router_errors", c_int64),
        ("batch_size", BatchHistogram),
        ("step_seconds", SecondsHistogram),
        ("handoff_seconds", SecondsHistogram),
        ("handoff_ready_seconds", SecondsHistogram),
    )

    alive: bool
    waiting: int
    running: int
    pending: int
    threshold: int
    sequences_used: int
    kv_tokens_used: int
    kv_tokens_capacity: int
    kv_reclaims: int
    steps: int
    tokens_committed: int
    handoffs_sent: int
    handoffs_received: int
    stale_messages: int
    router_errors: int
    batch_size: BatchHistogram
    step_seconds: SecondsHistogram
    handoff_seconds: SecondsHistogram
    handoff_ready_seconds: SecondsHistogram

    name: str
    step_counters: StepCounters

    def __new__(
        cls, name: str, step_counters: StepCounters, arena: Arena | None = None
    ) -> SubserverStats:
        """In memory of the arena."""
        return (arena or Arena()).take(cls)

    def __init__(self, name: str, step_counters: StepCounters, arena: Arena | None = None) -> None:
        self.name = name
        self.step_counters = step_counters
        if arena is None or arena.is_new:
            self.alive = True
            self.threshold = 1


@dataclass(frozen=True, slots=True)
class TuningStatus:
    """What the tuner knows and expects; speeds in committed tokens a second.

    active: the N that this is for.
    routing[i][j]: estimated probability that a step of model i ends with its request at model j.
    step_seconds[i]: estimated seconds of a step of model i by batch size, from 1 to N.
    thresholds: B by model.
    predicted: with these.
    measured: over the last seconds.
    alone: predicted for each model if it served all requests by itself.

    Requests that are bound to one model don't count in any of these.
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
    """A snapshot of a group.

    queued: requests not yet admitted.
    active: admitted, not yet ended.
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
