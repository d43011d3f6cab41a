"""When checks that succeed or fail make an instance healthy or unhealthy."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class HealthCount:
    """Of one instance.

    rise: checks in a row that turn it to healthy.
    fall: checks in a row that turn it to unhealthy.
    healthy: None before the first verdict.
    """

    rise: int = 1
    fall: int = 2
    healthy: bool | None = None
    _alike: int = 0
    _last: bool | None = None

    def checked(self, succeeded: bool) -> bool:
        """Take in a check; True if `healthy` is another now."""
        self._alike = self._alike + 1 if succeeded is self._last else 1
        self._last = succeeded
        needed = self.rise if succeeded else self.fall
        if self.healthy is succeeded or self._alike < needed:
            return False
        self.healthy = succeeded
        return True
