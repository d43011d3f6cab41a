"""One task per instance that asks it something again and again."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable

_LOG = logging.getLogger(__name__)
_JITTER = 0.1  # of a pause, up or down, so that instances are not asked all at once for ever


class Polling:
    """Rounds of one key follow each other and never overlap; keys don't wait for each other.

    To be used from one event loop.
    """

    def __init__(self, after_a_bug_s: float = 5.0) -> None:
        """after_a_bug_s: pause after a round that raised what it should not."""
        self._after_a_bug_s = after_a_bug_s
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def start(self, key: str, once: Callable[[], Awaitable[float]]) -> None:
        """Call `once` from now on; it returns the seconds to the next round.

        Raises ValueError: key is started already.
        """
        if key in self._tasks:
            raise ValueError(f"{key!r} is polled already")
        self._tasks[key] = asyncio.create_task(self._repeat(key, once), name=f"polling {key}")

    def stop(self, key: str) -> None:
        """No round of this key goes on after it; nothing happens if there is none."""
        task = self._tasks.pop(key, None)
        if task is not None:
            task.cancel()

    async def close(self) -> None:
        """Stop all, and wait until they have ended."""
        tasks = list(self._tasks.values())
        for key in list(self._tasks):
            self.stop(key)
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _repeat(self, key: str, once: Callable[[], Awaitable[float]]) -> None:
        while True:
            try:
                pause = await once()
            except Exception:  # noqa: BLE001  one bug must not end what an instance is known by
                _LOG.exception("polling %s", key)
                pause = self._after_a_bug_s
            await asyncio.sleep(pause * random.uniform(1 - _JITTER, 1 + _JITTER))
