"""One streamed request over a connection of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from trserve.bench.client.connection import BrokenResponseError, Connection, NotConnectedError
from trserve.bench.client.event_splitter import EventSplitter
from trserve.bench.client.http_request import request_start, with_body
from trserve.bench.client.server_address import ServerAddress


async def post_stream(
    name: str, port: int, path: str, body: bytes, take: Callable[[Any], None]
) -> None:
    """POST JSON to a port of this host, and give `take` each event of the stream as it comes.

    name: of the server, for errors.

    Raises RuntimeError if the status is not 200, or at an event that is an error; ConnectionError
    if the stream breaks off.
    """
    address = ServerAddress("127.0.0.1", port)
    start = request_start("POST", address, path, {"Connection": "close"})
    connection, stream = Connection(address), _EventStream(name, take)
    connection.send(with_body(start, body), stream)
    try:
        await stream.ended
    finally:
        connection.close()


class _EventStream:
    """Receives the response for whoever awaits `ended`."""

    def __init__(self, name: str, take: Callable[[Any], None]) -> None:
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._name = name
        self._take = take
        self._events = EventSplitter()
        self._status = 0
        self._refusal = b""

    def on_head(self, status: int, content_type: bytes) -> None:
        self._status = status

    def on_body(self, data: bytes) -> None:
        if self._status != 200:
            self._refusal += data
        elif not self.ended.done():
            try:
                self._taken(data)
            except Exception as error:  # noqa: BLE001  raised again where it is awaited
                self.ended.set_exception(error)

    def on_end(self, error: NotConnectedError | BrokenResponseError | None) -> None:
        if self.ended.done():
            return
        if self._status not in (0, 200):
            said = f"{self._name}: {self._status}: {self._refusal[-500:]!r}"
            self.ended.set_exception(RuntimeError(said))
        elif error is not None:
            self.ended.set_exception(error)
        else:
            self.ended.set_result(None)

    def _taken(self, data: bytes) -> None:
        for _, said in self._events.feed(data):
            if said.startswith(b"{"):
                event = msgspec.json.decode(said)
                if "error" in event:
                    raise RuntimeError(f"{self._name} ended a stream: {event['error']}")
                self._take(event)
