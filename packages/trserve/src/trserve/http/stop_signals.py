"""Ctrl-C and SIGTERM: the first asks the server to stop, the second to stop at once.

A third ends the process there and then, whatever is still being cleaned up.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

KILLED = 130
REMIND_S = 3.0
"""How often the log mentions a long wait."""

_FIRST = asyncio.FIRST_COMPLETED
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


async def interrupted(
    work: asyncio.Future[Any],
    signalled: asyncio.Event,
    remind: Callable[[], None] = lambda: None,
    remind_s: float = REMIND_S,
) -> bool:
    """Wait for the end of the work or for the signal; whether that has come.

    remind: called every `remind_s` seconds meanwhile.
    """
    signal_came = asyncio.ensure_future(signalled.wait())
    both = {work, signal_came}
    try:
        while not (await asyncio.wait(both, timeout=remind_s, return_when=_FIRST))[0]:
            remind()
        return signalled.is_set()
    finally:
        signal_came.cancel()
