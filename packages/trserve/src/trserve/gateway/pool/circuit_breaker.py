"""Keeps requests away from an instance that has just failed several times in a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

BreakerState = Literal["closed", "open", "half-open"]


@dataclass(frozen=True, slots=True)
class BreakerSettings:
    """When it opens, and for how long.

    failures: in a row that open it.
    cooldown_s: how long it then stays open. Every failed probe doubles the time; a success resets
        it.
    max_cooldown_s: longest that it stays open.
    """

    failures: int = 5
    cooldown_s: float = 5.0
    max_cooldown_s: float = 60.0


class CircuitBreaker:
    """One instance's.

    closed: all may pass.
    open: none may, for the cooldown.
    half-open: one at a time, as a probe.

    Only what says something about the instance is to be told: answers and broken connections, not
    a client's mistake or departure. Times are seconds of any clock that never goes back.

    Source: M. Nygard, Release It!, chapter "Stability Patterns".
    """

    def __init__(self, settings: BreakerSettings | None = None) -> None:
        """settings: None: the defaults."""
        self._settings = settings or BreakerSettings()
        self._failures = 0
        self._cooldown = 0.0
        self._open_until: float | None = None
        self._probe_until = 0.0
        self.opened = 0

    def state(self, now: float) -> BreakerState:
        """Changes nothing."""
        if self._open_until is None:
            return "closed"
        return "open" if now < self._open_until else "half-open"

    def opens_in(self, now: float) -> float:
        """Seconds until a probe may pass; 0 while it isn't open."""
        return 0.0 if self._open_until is None else max(0.0, self._open_until - now)

    def allows(self, now: float) -> bool:
        """Whether a request may be sent; when half-open, True makes it the probe.

        A probe of which nothing is heard for a cooldown is given up, and another may follow.
        """
        state = self.state(now)
        if state != "half-open":
            return state == "closed"
        if now < self._probe_until:
            return False
        self._probe_until = now + self._cooldown
        return True

    def failed(self, now: float) -> None:
        """A request failed. While open, requests sent before are still failing: no news."""
        state = self.state(now)
        if state == "open":
            return
        self._failures += 1
        if state == "half-open":
            self._open(now, min(2 * self._cooldown, self._settings.max_cooldown_s))
        elif self._failures >= self._settings.failures:
            self._open(now, self._settings.cooldown_s)

    def succeeded(self, now: float) -> None:
        """A request was answered. While open, one sent before proves nothing."""
        if self.state(now) != "open":
            self._failures = 0
            self._open_until = None

    def gave_up(self) -> None:
        """A request, perhaps the probe, ended and told nothing: another may follow."""
        self._probe_until = 0.0

    def _open(self, now: float, cooldown: float) -> None:
        self._cooldown = cooldown
        self._open_until = now + cooldown
        self._probe_until = 0.0
        self.opened += 1
