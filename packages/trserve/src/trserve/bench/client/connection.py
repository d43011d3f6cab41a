"""An HTTP/1.1 connection, kept between requests: the one client core of all load generators here.

As light as can be, for the generator shares its machine with what it measures: llhttp parses, no
task runs for a request, nothing is copied. What comes is told to the request's receiver at once.
"""

from __future__ import annotations

import asyncio
from typing import Protocol, cast

import httptools

from trserve.bench.client.server_address import ServerAddress

_CONTENT_TYPE = b"content-type"
_LENGTHS = (b"content-length", b"transfer-encoding")


class NotConnectedError(ConnectionError):
    """No connection could be opened.

    error: why.
    """

    def __init__(self, error: Exception) -> None:
        super().__init__(f"no connection: {getattr(error, 'strerror', None) or error}")
        self.error = error


class BrokenResponseError(ConnectionError):
    """The connection was closed, or brought what is no HTTP, before the response was complete."""


class Receiver(Protocol):
    """Told what comes of one request: a head, the body in any number of pieces, the end.

    None of its methods may raise.
    """

    def on_head(self, status: int, content_type: bytes) -> None:
        """content_type: as the server wrote it; empty without one."""

    def on_body(self, data: bytes) -> None:
        """The next bytes of the body, whatever the status."""

    def on_end(self, error: NotConnectedError | BrokenResponseError | None) -> None:
        """error: None for a complete response. The connection is free for the next request."""


class Connection(asyncio.Protocol):
    """Sends one request at a time to a server; opened when there is need to."""

    def __init__(self, address: ServerAddress) -> None:
        self._address = address
        self._parser: httptools.HttpResponseParser | None = None
        self._transport: asyncio.WriteTransport | None = None
        self._receiver: Receiver | None = None
        self._opening: asyncio.Task[None] | None = None
        self._content_type = b""
        self._ends_by_length = False  # else by the connection's end
        self._head_came = False
        self._complete = False  # what is under way, but for the connection's end
        self._why_broken = ""

    @property
    def receiver(self) -> Receiver | None:
        """Of the request under way."""
        return self._receiver

    @property
    def is_open(self) -> bool:
        """Whether a request would go out at once."""
        return self._transport is not None and not self._transport.is_closing()

    def send(self, request: bytes, receiver: Receiver) -> None:
        """A whole HTTP message. The receiver hears of its response, or of why there is none."""
        assert self._receiver is None, "one request at a time"
        self._receiver = receiver
        if self._transport is None:
            self._opening = asyncio.create_task(self._open(request))
        else:
            self._transport.write(request)

    def close(self) -> None:
        """Give up what is under way, without a word to its receiver."""
        self._receiver = None
        if self._opening is not None:
            self._opening.cancel()
        if self._transport is not None:
            self._transport.close()

    async def _open(self, request: bytes) -> None:
        failure = None
        try:
            await self._address.connect(self)
        except Exception as error:  # noqa: BLE001  whoever waits must hear of it
            failure = NotConnectedError(error)
        self._opening = None  # before the receiver hears of it, which may send again
        if failure is not None:
            self._end(failure)
        elif self._transport is not None:  # else it was closed again, and that was told
            self._transport.write(request)

    def _end(self, error: NotConnectedError | BrokenResponseError | None) -> None:
        self._begin_message()
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            receiver.on_end(error)

    def _begin_message(self) -> None:
        self._content_type = b""
        self._ends_by_length = self._head_came = self._complete = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)  # uvloop's are not of that class
        self._parser = httptools.HttpResponseParser(self)
        self._why_broken = "the connection was closed"
        self._begin_message()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        at_its_end = self._head_came and not self._ends_by_length and exc is None
        whole = self._complete or (at_its_end and self._receiver is not None)
        self._end(None if whole else BrokenResponseError(self._why_broken))

    def data_received(self, data: bytes) -> None:
        assert self._parser is not None
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserCallbackError:
            raise
        except httptools.HttpParserError as error:
            assert self._transport is not None
            self._why_broken = f"no HTTP: {error}"
            self._ends_by_length = True  # the connection's end does not make it whole
            self._transport.abort()

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name == _CONTENT_TYPE:
            self._content_type = value
        elif name in _LENGTHS:
            self._ends_by_length = True

    def on_headers_complete(self) -> None:
        assert self._parser is not None
        status = self._parser.get_status_code()
        if self._receiver is not None and status >= 200:
            self._head_came = True
            self._receiver.on_head(status, self._content_type)

    def on_body(self, body: bytes) -> None:
        if self._receiver is not None:
            self._receiver.on_body(body)

    def on_message_complete(self) -> None:
        assert self._parser is not None
        if self._parser.get_status_code() < 200:  # the response itself follows
            self._begin_message()
        elif self._parser.should_keep_alive():
            self._end(None)
        elif self._transport is not None:
            self._complete = True
            self._transport.close()  # the response ends when the connection has
