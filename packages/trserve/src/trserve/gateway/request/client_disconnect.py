"""Notices that a client has left, and stops its request."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import Receive

    from trserve.gateway.request.interruptible_task import InterruptibleTask


def stop_when_client_leaves(task: InterruptibleTask, receive: Receive) -> asyncio.Task[None]:
    """Until it is cancelled. receive: the client's ASGI connection; the body has been read."""
    return asyncio.create_task(_watch(task, receive))


async def _watch(task: InterruptibleTask, receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    task.stop("client left")
