"""What instances say of themselves, and how much of it is other gateways' doing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Telemetry:
    """One reading: requests running and waiting, all gateways'; KV memory in use, 0 to 1."""

    running: int
    waiting: int
    kv_usage: float | None = None


class TelemetryBoard:
    """The last reading of each of `capacity` instances; float64 arrays [capacity].

    A reading is compared with this gateway's own requests at that time: the surplus is others'
    load, which is what cannot be known otherwise. It is stale when the last fetch failed or it is
    older than `stale_s`; it counts on, visibly stale, until it is `forget_s` old and what remains
    is this gateway's own account. So an instance that stops answering does not look idle.
    """

    def __init__(self, capacity: int, stale_s: float = 1.0, forget_s: float = 10.0) -> None:
        self._stale_s = stale_s
        self._forget_s = forget_s
        self._at = np.full(capacity, -np.inf)
        self._failed = np.zeros(capacity, np.bool_)
        self._others_running = np.zeros(capacity)
        self._others_waiting = np.zeros(capacity)
        self._kv_usage = np.full(capacity, np.nan)

    def report(
        self, instance: int, told: Telemetry, own_running: int, own_waiting: int, now: float
    ) -> None:
        """Keep a reading; own_*: this gateway's account at the same time.

        The gateway and the instance may disagree on which of a gateway's requests run, so the
        surplus is taken of all requests first; what others have running is at most that.
        """
        surplus = max(0, told.running + told.waiting - own_running - own_waiting)
        running = min(surplus, max(0, told.running - own_running))
        self._others_running[instance] = running
        self._others_waiting[instance] = surplus - running
        self._kv_usage[instance] = np.nan if told.kv_usage is None else told.kv_usage
        self._at[instance] = now
        self._failed[instance] = False

    def failed(self, instance: int) -> None:
        """A fetch failed: what is known counts as stale from now on."""
        self._failed[instance] = True

    def clear(self, instance: int) -> None:
        """Nothing is known of it, as of a new one."""
        self._at[instance] = -np.inf
        self._failed[instance] = False
        self._others_running[instance] = self._others_waiting[instance] = 0
        self._kv_usage[instance] = np.nan

    def copy(self, instance: int, to: int) -> None:
        """What is known of one is known of another, which shares its server."""
        for column in (
            self._at,
            self._failed,
            self._others_running,
            self._others_waiting,
            self._kv_usage,
        ):
            column[to] = column[instance]

    def age(self, now: float) -> NDArray[np.float64]:
        """float64 [capacity], seconds; infinity before the first reading."""
        return now - self._at

    def stale(self, now: float) -> NDArray[np.bool_]:
        """Bool [capacity]."""
        return self._failed | (self.age(now) > self._stale_s)

    def others(self, now: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """float64 [capacity] twice: others' requests running and waiting, as far as remembered."""
        remembered = self.age(now) <= self._forget_s
        return self._others_running * remembered, self._others_waiting * remembered

    def kv_usage(self, now: float) -> NDArray[np.float64]:
        """float64 [capacity], 0 to 1; NaN where unknown or forgotten."""
        return np.where(self.age(now) > self._forget_s, np.nan, self._kv_usage)
