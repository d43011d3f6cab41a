"""Notices that a client has left, and stops its request."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.types import Receive

    from trserve.gateway.request.interruptible_task import InterruptibleTask


@contextmanager
def stopped_by_disconnect(task: InterruptibleTask, receive: Receive) -> Iterator[None]:
    """While the client is answered. receive: its ASGI connection; the body has been read."""
    watching = asyncio.create_task(_watch(task, receive))
    try:
        yield
    finally:
        watching.cancel()


async def _watch(task: InterruptibleTask, receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    task.stop("client left")
