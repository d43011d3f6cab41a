"""The end of an exchange with an instance, and whether its connection can be used again."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import aiohttp

if TYPE_CHECKING:
    from aiohttp import ClientResponse

_READ_ON_S = 1.0
_READING_ON: set[asyncio.Task[None]] = set()


def release_connection(response: ClientResponse, *, complete: bool) -> None:
    """complete: but for the body's end, which may come later; nobody waits for it."""
    if response.content.is_eof():
        response.release()
    elif complete:
        task = asyncio.create_task(_read_on(response))
        _READING_ON.add(task)
        task.add_done_callback(_READING_ON.discard)
    else:
        response.close()


async def _read_on(response: ClientResponse) -> None:
    """To the end, so that the connection can be used again."""
    try:
        with suppress(TimeoutError, aiohttp.ClientError):
            async with asyncio.timeout(_READ_ON_S):
                async for _ in response.content.iter_any():
                    pass
    finally:
        response.close()  # without effect on one that has ended
