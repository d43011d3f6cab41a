"""Something that scripts wait for, opened by the test from its own thread."""

from __future__ import annotations

import asyncio
import threading


class Gate:
    """Closed at first; once open it stays so. For any number of event loops."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_open = False
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    def open(self) -> None:
        """Let everyone pass, from any thread."""
        with self._lock:
            self._is_open = True
            for loop, event in self._waiting:
                loop.call_soon_threadsafe(event.set)

    async def passed(self) -> None:
        """Wait until it is open."""
        entry = (asyncio.get_running_loop(), asyncio.Event())
        with self._lock:
            if self._is_open:
                return
            self._waiting.append(entry)
        try:
            await entry[1].wait()
        finally:
            with self._lock:
                self._waiting.remove(entry)
