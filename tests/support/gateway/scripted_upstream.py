"""A server on a real socket that does with each request exactly what the test wants."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

from tests.support.waiting import until


class Exchange:
    """One request as it came, and the connection to answer it on.

    head: the request line and headers, as bytes. left: set when the other side closed the
    connection before the script had ended. written: bytes that the socket has taken so far.
    """

    def __init__(self, head: bytes, body: bytes, writer: asyncio.StreamWriter) -> None:
        self.head = head
        self.body = body
        self.keep_alive = True
        self.left = threading.Event()
        self.written = 0
        self._writer = writer
        request, *lines = head.decode("latin-1").strip().split("\r\n")
        self.method, self.path, _ = request.split(" ", 2)
        pairs = (line.split(":", 1) for line in lines)
        self.headers = {name.lower(): value.strip() for name, value in pairs}

    @property
    def json(self) -> dict[str, Any]:
        """The body, which must be an object."""
        value = json.loads(self.body)
        assert isinstance(value, dict)
        return value

    async def write(self, data: bytes) -> None:
        """Returns when the socket has room for more."""
        self._writer.write(data)
        await self._writer.drain()
        self.written += len(data)

    def reset(self) -> None:
        """Drop the connection there and then."""
        self._writer.transport.abort()


Script = Callable[[Exchange], Awaitable[None]]


class _Reader(asyncio.StreamReader):
    """Knows when the other side has gone, without reading."""

    def __init__(self) -> None:
        super().__init__()
        self.gone = asyncio.Event()

    def feed_eof(self) -> None:
        super().feed_eof()
        self.gone.set()

    def set_exception(self, exc: Exception) -> None:
        super().set_exception(exc)
        self.gone.set()


class ScriptedUpstream:
    """answer: what is done with a request, unless `pages` has a script for its path.

    A connection is kept after the script unless it set `keep_alive` to False. The script is
    cancelled when the other side closes the connection. paths: of all requests. exchanges: those
    that `answer` got. open, most_open: exchanges under way.
    """

    def __init__(self, answer: Script, pages: dict[str, Script] | None = None) -> None:
        self.answer = answer
        self.pages = pages or {}
        self.url = ""
        self.paths: list[str] = []
        self.exchanges: list[Exchange] = []
        self.open = 0
        self.most_open = 0
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()

    async def start(self, port: int = 0) -> None:
        """Listen, in this event loop."""

        def protocol() -> asyncio.StreamReaderProtocol:
            reader = _Reader()

            def connected(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                task = asyncio.ensure_future(self._connection(reader, writer))
                # here, for a task that is cancelled before it has begun sees nothing to its end
                task.add_done_callback(lambda _: writer.close())
                task.add_done_callback(self._serving.discard)
                self._serving.add(task)
                if not self.listening:  # taken before it was stopped
                    task.cancel()

            return asyncio.StreamReaderProtocol(reader, connected)

        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(protocol, "127.0.0.1", port, backlog=2048)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        """Listen no more, and drop what is connected."""
        assert self._server is not None
        loop = asyncio.get_running_loop()
        for sock in self._server.sockets:  # asyncio leaks what it is just accepting when it closes
            loop.remove_reader(sock.fileno())
        await _turns()
        self._server.close()
        for task in list(self._serving):
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)
        await _turns()

    @property
    def listening(self) -> bool:
        """It takes connections."""
        return self._server is not None and self._server.is_serving()

    def wait_for(self, count: int) -> list[Exchange]:
        """The exchanges, once there are so many; from another thread."""
        until(lambda: len(self.exchanges) >= count)
        return self.exchanges

    async def _connection(self, reader: _Reader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while await self._exchange(reader, writer):
                pass

    async def _exchange(self, reader: _Reader, writer: asyncio.StreamWriter) -> bool:
        """Whether the connection is kept."""
        head = await reader.readuntil(b"\r\n\r\n")
        exchange = Exchange(head, b"", writer)
        exchange.body = await reader.readexactly(int(exchange.headers.get("content-length", "0")))
        self.paths.append(exchange.path)
        script = self.pages.get(exchange.path)
        if script is None:
            script = self.answer
            self.exchanges.append(exchange)
        return await _play(self._counted(script, exchange), exchange, reader.gone)

    async def _counted(self, script: Script, exchange: Exchange) -> None:
        """Over as soon as its last byte is written, before the other side can have read it."""
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            await script(exchange)
        finally:
            self.open -= 1


async def _turns() -> None:
    """A few of the loop, in which sockets open and close."""
    for _ in range(3):
        await asyncio.sleep(0)


async def _play(script: Coroutine[Any, Any, None], exchange: Exchange, gone: asyncio.Event) -> bool:
    playing = asyncio.ensure_future(script)
    leaving = asyncio.ensure_future(gone.wait())
    try:
        await asyncio.wait([playing, leaving], return_when=asyncio.FIRST_COMPLETED)
        if not playing.done():
            exchange.left.set()
            return False
        playing.result()
        return exchange.keep_alive
    except ConnectionError:
        exchange.left.set()
        return False
    finally:
        for task in (playing, leaving):
            task.cancel()
        await asyncio.gather(playing, leaving, return_exceptions=True)


@asynccontextmanager
async def scripted(answer: Script) -> AsyncIterator[ScriptedUpstream]:
    """One in the event loop of the test."""
    server = ScriptedUpstream(answer)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


class UpstreamThread:
    """An event loop in a thread, for upstreams that come and go."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever)
        self._thread.start()
        self._servers: list[ScriptedUpstream] = []

    def start(self, server: ScriptedUpstream, port: int = 0) -> ScriptedUpstream:
        """Let it listen."""
        asyncio.run_coroutine_threadsafe(server.start(port), self.loop).result(20)
        self._servers.append(server)
        return server

    def stop(self, server: ScriptedUpstream) -> None:
        """Nobody listens there from then on."""
        self._servers.remove(server)
        asyncio.run_coroutine_threadsafe(server.stop(), self.loop).result(20)

    def close(self) -> None:
        """Stop all."""
        for server in list(self._servers):
            self.stop(server)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(20)
        self.loop.close()


@contextmanager
def upstream_thread() -> Iterator[UpstreamThread]:
    """Closed at the end."""
    thread = UpstreamThread()
    try:
        yield thread
    finally:
        thread.close()
