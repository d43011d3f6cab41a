"""How late the generator's own event loop is: a busy one sees responses later than they came."""

from __future__ import annotations

import asyncio
import time
from array import array

_EVERY_S = 0.01


class LoopLag:
    """late: float64 seconds by which each tick of a clock came late."""

    def __init__(self) -> None:
        self.late = array("d")

    async def watch(self) -> None:
        """Until cancelled, which is a tick too."""
        while True:
            due = time.perf_counter() + _EVERY_S
            try:
                await asyncio.sleep(_EVERY_S)
            finally:
                self.late.append(max(0.0, time.perf_counter() - due))
