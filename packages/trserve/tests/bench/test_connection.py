"""The client core: where a response ends, what a request's head says, when a connection is kept."""

from __future__ import annotations

import asyncio
import json
import socket

import pytest
import uvloop

from packages.trserve.tests.bench.server_under_load import bodies
from packages.trserve.tests.bench.stream_server import Exchange, speak, stream_server
from trserve.bench.client.connection import BrokenResponseError, Connection, NotConnectedError
from trserve.bench.client.exchange import WholeResponse, exchange
from trserve.bench.client.http_client import HttpClient
from trserve.bench.client.http_request import request_start, with_body
from trserve.bench.client.response_reading import ResponseReading
from trserve.bench.client.server_address import ServerAddress

HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"


def answered(*pieces: bytes, host: str = "127.0.0.1") -> WholeResponse:
    """What comes of a request to a server that says this and hangs up."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        writer.close()
        await writer.wait_closed()

    async def ask() -> WholeResponse:
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            address = ServerAddress(host, server.sockets[0].getsockname()[1])
            connection = Connection(address)
            try:
                request = request_start("GET", address, "/") + b"\r\n"
                return await asyncio.wait_for(exchange(connection, request), 30)
            finally:
                connection.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(ask())


@pytest.mark.parametrize(
    "said",
    [
        HEAD + b"Content-Length: 2\r\n\r\nhi",
        HEAD + b"Content-Length: 2\r\nConnection: close\r\n\r\nhi",
        HEAD + CHUNKED + b"\r\n2\r\nhi\r\n0\r\n\r\n",
        HEAD + b"\r\nhi",  # ends with the connection
        b"HTTP/1.0 200 OK\r\n\r\nhi",
        b"HTTP/1.1 100 Continue\r\n\r\n" + HEAD + b"Content-Length: 2\r\n\r\nhi",
        b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + HEAD + b"\r\nhi",
    ],
)
def test_where_a_response_ends(said: bytes) -> None:
    assert answered(said) == WholeResponse(200, b"hi")
    assert answered(*(said[at : at + 1] for at in range(len(said)))) == WholeResponse(200, b"hi")


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"", "the connection was closed"),
        (HEAD, "the connection was closed"),
        (HEAD + b"Content-Length: 3\r\n\r\nhi", "the connection was closed"),
        (HEAD + b"Content-Length: 3\r\nConnection: close\r\n\r\nhi", "the connection was closed"),
        (HEAD + CHUNKED + b"Connection: close\r\n\r\n2\r\nhi\r\n", "the connection was closed"),
        (b"HTTP/1.1 100 Continue\r\n\r\n", "the connection was closed"),
        (HEAD + CHUNKED + b"\r\nxyz\r\n", "no HTTP: "),
        (b"SSH-2.0\r\n\r\n", "no HTTP: "),
    ],
)
def test_what_breaks_off_is_no_response(said: bytes, why: str) -> None:
    with pytest.raises(BrokenResponseError, match=why):
        answered(said)


def test_a_name_is_looked_up() -> None:
    assert answered(HEAD + b"\r\nhi", host="localhost").body == b"hi"


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a..b", "x" * 300])
def test_a_name_that_is_none(host: str) -> None:
    with pytest.raises(NotConnectedError, match="no connection: "):
        answered(HEAD + b"\r\nhi", host=host)


def test_a_receiver_may_send_again_when_it_hears_of_an_end() -> None:
    class Stubborn:
        """Asks again at each end, up to the third."""

        def __init__(self, connection: Connection) -> None:
            self.ends: list[str] = []
            self.third = asyncio.Event()
            self._connection = connection

        def on_head(self, status: int, content_type: bytes) -> None:
            pass

        def on_body(self, data: bytes) -> None:
            pass

        def on_end(self, error: NotConnectedError | BrokenResponseError | None) -> None:
            self.ends.append(type(error).__name__)
            if len(self.ends) == 3:
                self.third.set()
            else:
                self._connection.send(b"GET / HTTP/1.1\r\n\r\n", self)

    async def ask() -> list[str]:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            connection = Connection(ServerAddress(*free.getsockname()))
        receiver = Stubborn(connection)
        connection.send(b"GET / HTTP/1.1\r\n\r\n", receiver)
        await asyncio.wait_for(receiver.third.wait(), 30)
        return receiver.ends

    assert asyncio.run(ask()) == ["NotConnectedError"] * 3


@pytest.mark.parametrize(
    ("url", "host", "path"),
    [
        ("http://127.0.0.1:8000", "127.0.0.1:8000", ""),
        ("http://host", "host", ""),
        ("https://host:443/a b", "host", "/a%20b"),
        ("https://host:80/prefix%2F", "host:80", "/prefix%2F"),
        ("http://[::1]:8000", "[::1]:8000", ""),
        ("http://bücher.example", "xn--bcher-kva.example", ""),
    ],
)
def test_urls(url: str, host: str, path: str) -> None:
    address = ServerAddress.of_url(url)
    assert (address.host_header, address.path) == (host, path)


def test_heads() -> None:
    address = ServerAddress("host", 8000, path="/prefix")
    headers = {"X-Team": "red", "HOST": "other", "Content-Length": "9"}
    start = request_start("POST", address, "/v1/x", headers)
    assert with_body(start, b"{}").split(b"\r\n") == [
        b"POST /prefix/v1/x HTTP/1.1",
        b"HOST: other",
        b"User-Agent: trserve",
        b"Content-Type: application/json",
        b"X-Team: red",
        b"Content-Length: 2",
        b"",
        b"{}",
    ]


@pytest.mark.parametrize(("keep_alive", "connections"), [(60.0, 1), (0.0, 3)])
def test_an_idle_connection_is_used_again_while_it_is_fresh(
    keep_alive: float, connections: int
) -> None:
    async def ask() -> int:
        async with (
            stream_server() as server,
            HttpClient(
                server.url, "completions", {}, stream=True, timeout=60, keep_alive=keep_alive
            ) as client,
        ):
            for _, body in zip(range(3), bodies(), strict=False):
                await client.serve(body, reading := ResponseReading())
                assert reading.failure is None
            return server.connections

    assert asyncio.run(ask()) == connections


def test_a_server_that_speaks_no_tls_is_not_reached() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        await reader.read(-1)
        writer.close()

    async def ask() -> ResponseReading:
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            async with HttpClient(url, "chat", {}, stream=True, timeout=60) as client:
                await client.serve(b"{}", reading := ResponseReading())
        return reading

    found = asyncio.run(ask()).failure
    assert found is not None
    assert found.kind == "unreachable"


def test_what_one_response_brings_is_not_the_next_ones() -> None:
    """Content types and statuses are told anew for each on a kept connection."""

    async def answer(exchange: Exchange) -> None:
        if exchange.prompt == "1":
            await exchange.whole(503, {"error": "busy"})
        else:
            await speak(exchange)

    async def ask() -> list[str | None]:
        kinds: list[str | None] = []
        async with (
            stream_server(answer) as server,
            HttpClient(server.url, "completions", {}, stream=True, timeout=60) as client,
        ):
            for number in "0123":
                reading = ResponseReading()
                body = json.dumps({"prompt": number, "max_tokens": 2}).encode()
                await client.serve(body, reading)
                kinds.append(reading.failure.kind if reading.failure else None)
            assert server.connections == 1
        return kinds

    assert asyncio.run(ask()) == [None, "status_5xx", None, None]
