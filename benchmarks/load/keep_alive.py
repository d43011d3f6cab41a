"""An HTTP/1.1 connection that is kept between requests, as light as can be."""

from __future__ import annotations

import asyncio

_END_OF_HEAD = b"\r\n\r\n"


class KeepAlive:
    """POSTs JSON to a port of this host, one request at a time; opened anew when it was closed."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._replies: _Replies | None = None

    async def post(self, path: str, body: bytes) -> bytes:
        """The body of the reply. Raises RuntimeError if its status is not 200."""
        head = (
            f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        ).encode()
        kept = self._replies is not None and not self._replies.closed
        try:
            return await self._exchange(head + body)
        except ConnectionError:
            if not kept:
                raise
            # closed by the server while idle: it has not taken the request
            return await self._exchange(head + body)

    async def _exchange(self, request: bytes) -> bytes:
        if self._replies is None or self._replies.closed:
            loop = asyncio.get_running_loop()
            _, self._replies = await loop.create_connection(_Replies, "127.0.0.1", self._port)
        head, body = await self._replies.answer(request)
        if b" 200 " not in head.partition(b"\r\n")[0]:
            raise RuntimeError(f"{head.splitlines()[0].decode()}: {body[-500:]!r}")
        return body

    def close(self) -> None:
        """End the connection."""
        if self._replies is not None:
            self._replies.close()


class _Replies(asyncio.Protocol):
    """Replies with a Content-Length. closed: no request may follow on this connection."""

    def __init__(self) -> None:
        self.closed = False
        self._transport: asyncio.WriteTransport | None = None
        self._received = bytearray()
        self._wanted: int | None = None
        self._head = b""
        self._answer: asyncio.Future[tuple[bytes, bytes]] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionResetError("the server closed the connection"))

    def data_received(self, data: bytes) -> None:
        self._received += data
        if self._wanted is None:
            end = self._received.find(_END_OF_HEAD)
            if end < 0:
                return
            self._head = bytes(self._received[:end])
            del self._received[: end + len(_END_OF_HEAD)]
            self._wanted = _content_length(self._head)
        if len(self._received) < self._wanted:
            return
        body = bytes(self._received)
        self._received.clear()
        self._wanted = None
        if b"connection: close" in self._head.lower():
            self.close()
        if self._answer is not None and not self._answer.done():
            self._answer.set_result((self._head, body))

    def answer(self, request: bytes) -> asyncio.Future[tuple[bytes, bytes]]:
        assert self._transport is not None
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._answer

    def close(self) -> None:
        self.closed = True
        if self._transport is not None:
            self._transport.close()


def _content_length(head: bytes) -> int:
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    raise RuntimeError(f"a reply without Content-Length: {head!r}")
