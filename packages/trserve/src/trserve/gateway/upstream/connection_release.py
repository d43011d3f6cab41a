"""The end of an exchange with an instance, and whether its connection can be used again."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import aiohttp

if TYPE_CHECKING:
    from aiohttp import ClientResponse


class ConnectionRelease:
    """Gives connections back to be used again, or closes them.

    reading_on: tasks that wait for the ends of bodies whose answers are complete.
    """

    def __init__(self, read_on_s: float = 1.0) -> None:
        """read_on_s: how long the end of a body is waited for."""
        self._read_on_s = read_on_s
        self.reading_on: set[asyncio.Task[None]] = set()

    def release(self, response: ClientResponse, *, complete: bool) -> None:
        """complete: but for the body's end, which may come later; nobody waits for it."""
        if response.content.is_eof():
            response.release()
        elif complete:
            task = asyncio.create_task(self._read_on(response))
            self.reading_on.add(task)
            task.add_done_callback(self.reading_on.discard)
        else:
            response.close()

    async def _read_on(self, response: ClientResponse) -> None:
        """To the end, so that the connection can be used again."""
        try:
            with suppress(TimeoutError, aiohttp.ClientError):
                async with asyncio.timeout(self._read_on_s):
                    async for _ in response.content.iter_any():
                        pass
        finally:
            response.close()  # without effect on one that has ended
