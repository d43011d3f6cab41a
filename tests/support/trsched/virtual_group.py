"""A group in virtual time: the live policy and tuner, requests that are only counted."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from trsched.loops.batch_start import DelayedBatching
from trsched.shared.active_count import ActiveCount
from trsched.shared.counters import SubserverStats
from trsched.shared.step_counters import StepCounters
from trsched.shared.thresholds import Thresholds
from trsched.tuning.tuner import Tuner

POLL_S = 0.2
LARGEST = 32

Route = Callable[[int, int, random.Random], tuple[int, int]]
"""(model, steps of this visit, draws) → (model that has it next, tokens committed)."""


@dataclass
class Request:
    visit: int = 0


class VirtualGroup:
    """`latencies[i](b)`: seconds of a step. fixed: thresholds, None for tuned ones."""

    def __init__(
        self,
        route: Route,
        latencies: Sequence[Callable[[int], float]],
        active: int,
        *,
        fixed: Sequence[int] | None = None,
        shared_device: bool = False,
    ) -> None:
        models = len(latencies)
        self.route = route
        self.latencies = latencies
        self.now = 0.0
        self.tokens = 0
        self._draws = random.Random(0)
        self._active = ActiveCount()
        self._shared = shared_device
        counters = [StepCounters(models, LARGEST) for _ in latencies]
        self._stats = [SubserverStats(str(i), each) for i, each in enumerate(counters)]
        self.thresholds = Thresholds(fixed or [1] * models, LARGEST)
        self.tuner: Tuner | None = None
        if fixed is None:
            self.tuner = Tuner(
                counters,
                self.thresholds,
                largest_batch=LARGEST,
                shared_device=shared_device,
                changed=lambda: None,
            )
        self._starts = [
            DelayedBatching(i, self.thresholds, self._active, stats)
            for i, stats in enumerate(self._stats)
        ]
        self._waiting: list[list[Request]] = [[] for _ in latencies]
        self._running: list[list[Request]] = [[] for _ in latencies]
        self._ends: list[tuple[float, int]] = []
        self._last = models - 1
        self._next_poll = POLL_S
        self.set_active(active)

    def set_active(self, active: int) -> None:
        """Requests come to model 0, or those that wait there longest leave at their next step."""
        for _ in range(active - self._active.routed):
            self._waiting[0].append(Request())
        self._active.routed = active

    def run(self, seconds: float) -> float:
        """Let so much time pass; the tokens a second in it."""
        began, before = self.now, self.tokens
        until = self.now + seconds
        while True:
            self._start_what_may()
            ends = self._ends[0][0] if self._ends else until
            self.now = min(ends, self._next_poll, until)
            if self.now == until:
                return (self.tokens - before) / (until - began)
            if self.now == self._next_poll:
                self._next_poll += POLL_S
                if self.tuner is not None:
                    self.tuner.poll(self._active.routed, self.now)
            else:
                self._finish(heapq.heappop(self._ends)[1])

    def _start_what_may(self) -> None:
        models = len(self.latencies)
        for model in sorted(range(models), key=lambda m: (m - self._last - 1) % models):
            if self._running[model] or (self._shared and self._ends):
                continue
            if self._starts[model].begin(len(self._waiting[model])):
                batch = self._running[model] = self._waiting[model]
                self._waiting[model] = []
                took = self.latencies[model](len(batch))
                self._stats[model].step_counters.took(len(batch), took)
                heapq.heappush(self._ends, (self.now + took, model))
                self._last = model

    def _finish(self, model: int) -> None:
        batch, self._running[model] = self._running[model], []
        surplus = sum(map(len, self._waiting + self._running)) + len(batch) - self._active.routed
        batch = batch[max(0, surplus) :]
        moves = []
        for request in batch:
            request.visit += 1
            owner, made = self.route(model, request.visit, self._draws)
            if owner != model:
                request.visit = 0
            self.tokens += made
            moves.append((owner, made - 1))
            self._waiting[owner].append(request)
        self._stats[model].step_counters.moved(moves)
