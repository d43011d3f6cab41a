"""A client's connection as light as can be: HTTP/1.1, kept between requests, no copy of a reply."""

from __future__ import annotations

import asyncio
import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

import httptools

_DONE = b"data: [DONE]\n\n"
_EVENT_END = b"\n\n"
_TAIL_BYTES = 512


@dataclass(slots=True)
class Reply:
    """What came of one request. Times in seconds of time.perf_counter.

    events: of a streamed reply, [DONE] included. times: of each event. tail: the last of a stream.
    failure: empty, or why this reply is none.
    """

    began: float
    ended: float = 0.0
    status: int = 0
    size: int = 0
    events: int = 0
    times: array[float] = field(default_factory=lambda: array("d"))
    tail: bytes = b""
    failure: str = ""

    @property
    def done(self) -> bool:
        """Whether it is a stream that came to its end."""
        return self.tail.endswith(_DONE)


class Connection(asyncio.Protocol):
    """Sends one request at a time to a port of this host; opened when there is need to.

    ended: called with each reply when it is complete or has failed. streams: whether replies are
    server-sent events, whose times are wanted.
    """

    def __init__(
        self, port: int, ended: Callable[[Connection, Reply], None], *, streams: bool = False
    ) -> None:
        self._port = port
        self._ended = ended
        self._streams = streams
        self._parser: httptools.HttpResponseParser | None = None
        self._transport: asyncio.WriteTransport | None = None
        self._reply: Reply | None = None
        self._opening: asyncio.Task[None] | None = None
        self._verdict = "the connection was closed"

    @property
    def reply(self) -> Reply | None:
        """Of the request under way, as far as it has come."""
        return self._reply

    def send(self, request: bytes, began: float | None = None) -> None:
        """began: when it should have been sent; None: now."""
        assert self._reply is None, "one request at a time"
        self._reply = Reply(time.perf_counter() if began is None else began)
        if self._transport is None:
            self._opening = asyncio.create_task(self._open(request))
        else:
            self._transport.write(request)

    def close(self) -> None:
        """Give up what is under way, without a word to `ended`."""
        self._reply = None
        if self._transport is not None:
            self._transport.close()

    async def _open(self, request: bytes) -> None:
        try:
            loop = asyncio.get_running_loop()
            await loop.create_connection(lambda: self, "127.0.0.1", self._port)
        except OSError as error:
            self._end(f"no connection: {error.strerror or error}")
            return
        assert self._transport is not None
        if self._reply is None:  # closed meanwhile
            self._transport.close()
        else:
            self._transport.write(request)

    def _end(self, failure: str = "") -> None:
        reply, self._reply = self._reply, None
        if reply is not None:
            reply.failure = failure
            reply.ended = time.perf_counter()
            self._ended(self, reply)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)  # uvloop's are not of that class
        self._parser = httptools.HttpResponseParser(self)
        self._verdict = "the connection was closed"

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._end(self._verdict)

    def data_received(self, data: bytes) -> None:
        assert self._parser is not None
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            assert self._transport is not None
            self._verdict = f"no HTTP: {error}"
            self._transport.abort()

    def on_body(self, body: bytes) -> None:
        reply = self._reply
        if reply is None:
            return
        reply.size += len(body)
        if self._streams:
            events = body.count(_EVENT_END) + (reply.tail[-1:] == b"\n" == body[:1])
            if events:
                now = time.perf_counter()
                reply.events += events
                reply.times.extend([now] * events)
            reply.tail = (reply.tail + body)[-_TAIL_BYTES:]

    def on_message_complete(self) -> None:
        assert self._parser is not None
        reply = self._reply
        if reply is None:
            return
        reply.status = self._parser.get_status_code()
        failure = ""
        if reply.status != 200:
            failure = f"status {reply.status}"
        elif self._streams and not reply.done:
            failure = "the stream has no end"
        if self._parser.should_keep_alive():
            self._end(failure)
        elif self._transport is not None:
            self._verdict = failure
            self._transport.close()  # the reply ends when the connection has
