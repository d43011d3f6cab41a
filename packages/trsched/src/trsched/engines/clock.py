"""Time as engines see it: the wall clock, or a virtual one for simulation."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Seconds since some fixed point."""

    def now(self) -> float:
        """The present."""

    def sleep(self, seconds: float) -> None:
        """Let time pass."""


class WallClock:
    """Real time."""

    def now(self) -> float:
        """Monotonic seconds."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Sleep until that much later."""
        time.sleep(seconds)


class VirtualClock:
    """Time that passes only when someone lets it, in no real time at all."""

    def __init__(self) -> None:
        self._now = 0.0

    def now(self) -> float:
        """Virtual seconds."""
        return self._now

    def sleep(self, seconds: float) -> None:
        """Advance."""
        self._now += seconds
