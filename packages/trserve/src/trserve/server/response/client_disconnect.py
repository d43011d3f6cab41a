"""A client that leaves before its response is complete: its generation is aborted at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from starlette.types import Receive

from trserve.server.response.running_request import RunningRequest


@contextmanager
def aborted_on_disconnect(running: RunningRequest, receive: Receive) -> Iterator[None]:
    """Watch, as long as the block runs, for ASGI's message that the connection has ended.

    receive: of the exchange, whose body has been read.
    """
    watch = asyncio.create_task(_abort_when_client_leaves(running, receive))
    try:
        yield
    finally:
        watch.cancel()


async def _abort_when_client_leaves(running: RunningRequest, receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    running.client_has_left()
