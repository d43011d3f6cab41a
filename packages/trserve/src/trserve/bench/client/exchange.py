"""One request whose response is awaited whole."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from trserve.bench.client.connection import (
    BrokenResponseError,
    Connection,
    NotConnectedError,
)


@dataclass(frozen=True, slots=True)
class WholeResponse:
    """status: of HTTP."""

    status: int
    body: bytes


class _Collected:
    """Receives a response for whoever awaits it."""

    def __init__(self) -> None:
        self.response: asyncio.Future[WholeResponse] = asyncio.get_running_loop().create_future()
        self._status = 0
        self._pieces: list[bytes] = []

    def on_head(self, status: int, content_type: bytes) -> None:
        self._status = status

    def on_body(self, data: bytes) -> None:
        self._pieces.append(data)

    def on_end(self, error: NotConnectedError | BrokenResponseError | None) -> None:
        if self.response.done():
            return  # nobody waits any more
        if error is None:
            self.response.set_result(WholeResponse(self._status, b"".join(self._pieces)))
        else:
            self.response.set_exception(error)


async def exchange(connection: Connection, request: bytes) -> WholeResponse:
    """Send `request`. Raises NotConnectedError, BrokenResponseError."""
    collected = _Collected()
    connection.send(request, collected)
    try:
        return await collected.response
    except asyncio.CancelledError:
        connection.close()
        raise
