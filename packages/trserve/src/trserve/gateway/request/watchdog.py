"""Stops requests that wait too long: one look at all of them every so often, no timer for each."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trserve.gateway.config.config import Timeouts
    from trserve.gateway.request.flight import Flight, Stop

_LOOK_S = 0.1


def overdue(flight: Flight, timeouts: Timeouts, now: float) -> Stop | None:
    """Why a request must be stopped now, if it must."""
    if now > flight.deadline:
        return "deadline"
    waited = now - flight.touched
    match flight.phase:
        case "waiting":
            return None
        case "first byte":
            limit = timeouts.first_byte_s if flight.stream else timeouts.whole_s
            return "timeout" if waited > limit else None
        case "streaming":
            return "timeout" if waited > timeouts.idle_s else None
        case "client":
            return "client stalled" if waited > timeouts.client_s else None


class Watchdog:
    """`flights` are looked at while `run` runs."""

    def __init__(self, timeouts: Timeouts) -> None:
        self.timeouts = timeouts
        self.flights: set[Flight] = set()

    async def run(self) -> None:
        """Until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_LOOK_S)
            now = loop.time()
            for flight in [each for each in self.flights if each.stopped is None]:
                if (why := overdue(flight, self.timeouts, now)) is not None:
                    flight.stop(why)
