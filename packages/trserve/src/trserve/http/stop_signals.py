"""Ctrl-C and SIGTERM: the first asks the server to stop, the second to stop at once.

A third ends the process there and then, whatever is still being cleaned up.
"""

from __future__ import annotations

import asyncio
import os
import signal
from types import TracebackType
from typing import Self

KILLED = 130
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopSignals:
    """Handles the signals while entered; main thread, inside the event loop."""

    def __init__(self) -> None:
        self.first = asyncio.Event()
        self.second = asyncio.Event()

    def __enter__(self) -> Self:
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._handle)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.remove_signal_handler(number)

    def _handle(self) -> None:
        if self.second.is_set():
            os._exit(KILLED)
        (self.second if self.first.is_set() else self.first).set()
