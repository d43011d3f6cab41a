"""When waiting requests become a batch: sizes, deadlines, and the queue that applies them.

Nothing here waits or reads a clock: a live gateway and a simulation call it with their own time.
The article's section on adaptive batching; the thresholds are the artefact's.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from rbalance.errors import ConfigError

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """A batch starts with `size` requests, or when its first has waited `delay_s` seconds."""

    size: int
    delay_s: float

    def __post_init__(self) -> None:
        """Raises ConfigError: less than one request, or a delay that is no time."""
        if self.size < 1:
            raise ConfigError("batch.size", f"must be 1 or more, not {self.size}")
        if not 0 <= self.delay_s < math.inf:
            raise ConfigError("batch.delay_s", f"must be 0 or more, not {self.delay_s}")


class BatchSizing(Protocol):
    """Limits as they fit the load."""

    @property
    def largest(self) -> int:
        """The most requests in a batch, whatever the load."""
        ...

    def limits(self, congested: float | None) -> BatchLimits:
        """congested: share of instances with waiting requests, 0 to 1; None before it is known."""
        ...


@dataclass(frozen=True, slots=True)
class FixedSizing:
    """The same limits always."""

    fixed: BatchLimits

    @property
    def largest(self) -> int:
        """The most requests in a batch, whatever the load."""
        return self.fixed.size

    def limits(self, congested: float | None) -> BatchLimits:
        """Those given, whatever the load."""
        return self.fixed


@dataclass(frozen=True, slots=True)
class NaturalSizing:
    """Nobody waits for company: a batch is whoever came while the last one was decided.

    Beyond the article, whose batches wait for more requests: a decision of some milliseconds gains
    less from a fuller batch than its requests lose by waiting.
    """

    most: int = 32

    @property
    def largest(self) -> int:
        """The most requests in a batch, whatever the load."""
        return self.most

    def limits(self, congested: float | None) -> BatchLimits:
        """One request is enough, at once."""
        return BatchLimits(1, 0.0)


@dataclass(frozen=True, slots=True)
class AdaptiveSizing:
    """Larger batches the more instances are congested; the steps are (below, limits)."""

    start: BatchLimits = BatchLimits(8, 0.100)
    steps: tuple[tuple[float, BatchLimits], ...] = (
        (0.3, BatchLimits(4, 0.050)),
        (0.7, BatchLimits(16, 0.100)),
        (math.inf, BatchLimits(32, 0.200)),
    )

    @property
    def largest(self) -> int:
        """The most requests in a batch, whatever the load."""
        return max(limits.size for _, limits in self.steps)

    def limits(self, congested: float | None) -> BatchLimits:
        """Those of the first step that the share of congested instances is below."""
        if congested is None:
            return self.start
        return next(limits for below, limits in self.steps if congested < below)


def batch_due(queued: int, first_at: float, at_once: bool, limits: BatchLimits) -> float:
    """The time from which a batch may start; -infinity for "by now", infinity for "never yet".

    queued: waiting requests, the oldest of which came at `first_at`.
    at_once: it found nothing waiting and nothing being decided, and an idle system does not wait
        for company.
    """
    if not queued:
        return math.inf
    if at_once or queued >= limits.size:
        return -math.inf
    return first_at + limits.delay_s


class BatchQueue(Generic[Item]):
    """Requests waiting for a decision, and how many decisions are being made.

    The caller adds items, takes a batch whenever `due` says so, and tells when a decision is done.

    deciders: decisions made at the same time; 1 for a scheduler that decides batch after batch.
    """

    def __init__(self, sizing: BatchSizing, deciders: int = 1) -> None:
        self._sizing = sizing
        self._deciders = deciders
        self._queue: deque[tuple[float, Item]] = deque()
        self._deciding = 0
        self._at_once = False
        self._limits = sizing.limits(None)

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def idle(self) -> bool:
        """Nothing waits and nothing is being decided."""
        return not self._queue and not self._deciding

    def add(self, item: Item, now: float) -> None:
        """Let a request wait."""
        if not self._queue:
            self._at_once = self._deciding < self._deciders
        self._queue.append((now, item))

    def due(self) -> float:
        """The time from which `take` gives a batch; -infinity for now, infinity for never yet."""
        if self._deciding >= self._deciders:
            return math.inf
        first_at = self._queue[0][0] if self._queue else math.inf
        return batch_due(len(self._queue), first_at, self._at_once, self._limits)

    def take(self, now: float) -> list[Item]:
        """The batch that is due, oldest first; empty if none is. `decided` must follow.

        It is as large as can be, not only as large as it had to be: who waits already waits for
        nobody's company. (The artefact stops at the limit, so that its scheduler falls behind with
        batches of 4 while instances are idle.)
        """
        if self.due() > now:
            return []
        size = min(len(self._queue), self._sizing.largest)
        self._deciding += 1
        self._at_once = False
        return [self._queue.popleft()[1] for _ in range(size)]

    def drain(self) -> list[Item]:
        """All that waits, oldest first, taken without a decision."""
        items = [item for _, item in self._queue]
        self._queue.clear()
        return items

    def decided(self, congested: float | None) -> None:
        """A decision is done. congested: share of instances with waiting requests."""
        self._deciding -= 1
        self._limits = self._sizing.limits(congested)
