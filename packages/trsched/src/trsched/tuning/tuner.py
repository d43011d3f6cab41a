"""Follows what the group does and keeps its thresholds at the optimum, with hysteresis."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from trsched.shared.counters import TuningStatus
from trsched.shared.step_counters import StepCounters
from trsched.shared.thresholds import Thresholds
from trsched.tuning.latency_estimate import LatencyEstimate
from trsched.tuning.routing_estimate import RoutingEstimate
from trsched.tuning.throughput import LIVE, Prediction, Situation, Throughput

WORTH_SWITCHING = 1.01
"""Other thresholds are taken when they are predicted to be better by this factor."""

_SAME_PROBABILITY = 0.01
_SAME_RATIO = 0.15
_MEASURED_OVER_S = 2.0


class Tuner:
    """`poll` it a few times a second, from one thread.

    counters: of every subserver.
    largest_batch: most requests of a step.
    shared_device: whether the models take turns on one device.
    changed: called after thresholds may have changed.
    """

    def __init__(
        self,
        counters: Sequence[StepCounters],
        thresholds: Thresholds,
        *,
        largest_batch: int,
        shared_device: bool,
        changed: Callable[[], None],
    ) -> None:
        models = len(counters)
        self._read = [_Reader(each) for each in counters]
        self._thresholds = thresholds
        self._shared_device = shared_device
        self._changed = changed
        self._routing = RoutingEstimate(models)
        self._latency = [LatencyEstimate(largest_batch) for _ in range(models)]
        self._measured = _Rate()
        self._solved_for: Situation | None = None
        self._found: dict[int, Prediction] = {}
        self.status: TuningStatus | None = None

    def poll(self, active: int, now: float) -> None:
        """Take in what has happened since; active: N; now: monotonic seconds."""
        tokens = 0.0
        for model, reader in enumerate(self._read):
            moves, made, batches, seconds = reader.news()
            self._routing.add(model, moves, made)
            self._latency[model].add(batches, seconds)
            tokens += float(made.sum())
        measured = self._measured.add(tokens, now)
        if active < 1 or not all(estimate.known for estimate in self._latency):
            return
        situation = Situation(
            self._routing.routing,
            self._routing.commits,
            [estimate.curve(active) for estimate in self._latency],
            active,
            self._shared_device,
        )
        if self._solved_for is None or not alike(self._solved_for, situation):
            self._solved_for = situation
            self._found = {}
        if active not in self._found:
            self._solve(situation)
        self._publish(situation, measured)

    def _solve(self, situation: Situation) -> None:
        present = tuple(self._thresholds.at(situation.active))
        throughput = Throughput(situation, LIVE, present)
        best, as_is = throughput.best, throughput.of(present)
        worth_it = best.tokens_per_s >= as_is.tokens_per_s * WORTH_SWITCHING
        self._found[situation.active] = best if worth_it else as_is
        self._thresholds.replace({n: each.thresholds for n, each in self._found.items()})
        # Also when these are the present ones: those of other N may differ, and N may be another
        # by now. Who sleeps by old thresholds while others go by new ones could sleep for ever.
        self._changed()

    def _publish(self, situation: Situation, measured: float) -> None:
        found = self._found[situation.active]
        self.status = TuningStatus(
            active=situation.active,
            routing=tuple(map(tuple, situation.routing.tolist())),
            step_seconds=tuple(tuple(curve.tolist()) for curve in situation.step_seconds),
            thresholds=found.thresholds,
            predicted=found.tokens_per_s,
            measured=measured,
            alone=situation.alone(),
        )


def alike(old: Situation, new: Situation) -> bool:
    """Whether thresholds found for one situation do for the other, but for N."""
    allowed = np.maximum(_SAME_PROBABILITY, _SAME_RATIO * old.routing)
    if (np.abs(new.routing - old.routing) > allowed).any():
        return False
    if (np.abs(new.commits - old.commits) * new.routing > allowed).any():
        return False  # by what a step commits with that outcome
    for before, after in zip(old.step_seconds, new.step_seconds, strict=True):
        shared = min(len(before), len(after))
        if (np.abs(after[:shared] / before[:shared] - 1.0) > _SAME_RATIO).any():
            return False
    return True


class _Reader:
    """What is new in one subserver's counters since the last look."""

    def __init__(self, counters: StepCounters) -> None:
        self._counters = counters
        self._seen = self._now()

    def news(self) -> list[NDArray[np.float64]]:
        """Growth of moves, tokens, batches and seconds."""
        before, self._seen = self._seen, self._now()
        return [new - old for new, old in zip(self._seen, before, strict=True)]

    def _now(self) -> list[NDArray[np.float64]]:
        counters = self._counters
        lists = (counters.moves, counters.tokens, counters.batches, counters.seconds)
        return [np.array(numbers, dtype=np.float64) for numbers in lists]


class _Rate:
    """Events a second over the last seconds."""

    def __init__(self) -> None:
        self._last: float | None = None
        self._rate = 0.0
        self._weight = 0.0

    def add(self, events: float, now: float) -> float:
        if self._last is None or now <= self._last:
            self._last = now
            return self._rate
        passed = now - self._last
        kept = math.exp(-passed / _MEASURED_OVER_S)
        self._weight = self._weight * kept + (1.0 - kept)
        self._rate = self._rate * kept + events / passed * (1.0 - kept)
        self._last = now
        return self._rate / self._weight
