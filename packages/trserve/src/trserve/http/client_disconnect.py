"""Notices that a client has left before it has its whole answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import Receive


def call_when_client_leaves(receive: Receive, left: Callable[[], None]) -> asyncio.Task[None]:
    """Call `left` at ASGI's message that the connection has ended, unless cancelled before.

    receive: of the exchange, whose body has been read.
    """
    return asyncio.create_task(_watch(receive, left))


async def _watch(receive: Receive, left: Callable[[], None]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    left()
