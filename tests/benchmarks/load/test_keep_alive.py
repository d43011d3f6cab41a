"""The light HTTP client against servers that keep a connection, or don't."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from benchmarks.load.keep_alive import KeepAlive


class EchoServer:
    """Answers with the request's body. stays: replies on one connection before it is closed."""

    def __init__(self, *, stays: int, says_so: bool = False, status: bytes = b"200 OK") -> None:
        self.connections = 0
        self._stays = stays
        self._says_so = says_so
        self._status = status
        self._handlers: list[asyncio.Task[None]] = []

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        handler = asyncio.current_task()
        assert handler is not None
        self._handlers.append(handler)
        for left in reversed(range(self._stays)):
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError:
                break
            length = int(head.lower().partition(b"content-length:")[2].split()[0])
            body = await reader.readexactly(length)
            writer.write(b"HTTP/1.1 %b\r\nContent-Length: %d\r\n" % (self._status, length))
            if self._says_so and left == 0:
                writer.write(b"Connection: close\r\n")
            await writer.drain()
            await asyncio.sleep(0)  # the head and the body may come apart
            writer.write(b"\r\n" + body)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    async def posts(self, bodies: list[bytes]) -> list[bytes]:
        server = await asyncio.start_server(self.handle, "127.0.0.1", 0)
        async with server:
            client = KeepAlive(server.sockets[0].getsockname()[1])
            try:
                return [await client.post("/echo", body) for body in bodies]
            finally:
                client.close()
                await asyncio.gather(*self._handlers)


BODIES = [b"one", b"", b"three" * 30_000, b"four"]


def test_one_connection_serves_all() -> None:
    server = EchoServer(stays=99)
    assert asyncio.run(server.posts(BODIES)) == BODIES
    assert server.connections == 1


@pytest.mark.parametrize("says_so", [True, False])
def test_a_closed_connection_is_opened_anew(says_so: bool) -> None:
    server = EchoServer(stays=2, says_so=says_so)
    assert asyncio.run(server.posts(BODIES)) == BODIES
    assert server.connections == 2


def test_a_server_that_never_answers_is_an_error() -> None:
    with pytest.raises(ConnectionError):
        asyncio.run(EchoServer(stays=0).posts(BODIES))


def test_an_error_status_is_raised_with_what_was_said() -> None:
    with pytest.raises(RuntimeError, match="503: b'one'"):
        asyncio.run(EchoServer(stays=9, status=b"503 Busy").posts([b"one"]))
