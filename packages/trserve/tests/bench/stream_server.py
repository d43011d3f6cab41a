"""An HTTP server that answers as a test says, and writes down when what happened."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

Answer = Callable[["Exchange"], Awaitable[None]]


def chunk(text: str | None = None, *, finish: str | None = None, **more: Any) -> dict[str, Any]:
    """A chat's chunk; without text its delta is empty."""
    delta = {} if text is None else {"content": text}
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more}


@dataclass
class Exchange:
    """A request and the answer to it. Times are those of time.perf_counter."""

    path: str
    headers: dict[str, str]
    body: Any
    raw: bytes
    arrived: float
    peer: Any
    writer: asyncio.StreamWriter
    wrote: list[float] = field(default_factory=list)
    answered: bool = False

    @property
    def prompt(self) -> str:
        """Of either endpoint."""
        return str(self.body["prompt"] if "prompt" in self.body else self._message())

    def _message(self) -> Any:
        return self.body["messages"][-1]["content"]

    async def head(self, status: int = 200, kind: str = "text/event-stream") -> None:
        """Begins a response whose end is that of its chunks."""
        self.answered = True
        await self.send(
            f"HTTP/1.1 {status} Status\r\nContent-Type: {kind}\r\n"
            "Transfer-Encoding: chunked\r\n\r\n".encode()
        )

    async def send(self, data: bytes) -> None:
        """As they are."""
        self.writer.write(data)
        await self.writer.drain()

    async def piece(self, data: bytes) -> None:
        """One HTTP chunk."""
        await self.send(b"%x\r\n%s\r\n" % (len(data), data))

    async def event(self, data: Any) -> None:
        """One event, and when it was written."""
        self.wrote.append(time.perf_counter())
        await self.piece(b"data: " + json.dumps(data).encode() + b"\n\n")

    async def end(self, done: bytes = b"data: [DONE]\n\n") -> None:
        """[DONE] and the last HTTP chunk; the connection stays."""
        if done:
            await self.piece(done)
        await self.send(b"0\r\n\r\n")

    async def whole(self, status: int, document: Any) -> None:
        """A response at once."""
        self.answered = True
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        await self.send(
            f"HTTP/1.1 {status} Status\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n".encode()
            + body
        )

    def hang_up(self) -> None:
        """Close the connection, whatever was promised."""
        self.writer.close()


async def speak(exchange: Exchange, tokens: int | None = None) -> None:
    """A good answer of `tokens` tokens (or max_tokens), with usage at the end."""
    tokens = exchange.body["max_tokens"] if tokens is None else tokens
    await exchange.head()
    for _ in range(tokens):
        await exchange.event(chunk("word "))
    await exchange.event(chunk(finish="length"))
    usage = {"prompt_tokens": 7, "completion_tokens": tokens}
    await exchange.event({"choices": [], "usage": usage})
    await exchange.end()


@dataclass
class StreamServer:
    """url: where it listens. exchanges: with /v1/…completions, as they came."""

    url: str
    exchanges: list[Exchange] = field(default_factory=list)
    connections: int = 0

    def asked(self, prompt: str) -> Exchange:
        """The one exchange with that prompt."""
        (found,) = (exchange for exchange in self.exchanges if exchange.prompt == prompt)
        return found


@asynccontextmanager
async def stream_server(answer: Answer = speak) -> AsyncIterator[StreamServer]:
    """In the running event loop."""
    served = StreamServer("")

    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.connections += 1
        try:
            while not writer.is_closing():
                exchange = await _request(reader, writer)
                if exchange.path == "/v1/models":
                    await exchange.whole(200, {"data": [{"id": "scripted"}]})
                    continue
                served.exchanges.append(exchange)
                await answer(exchange)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client left
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    connections: set[asyncio.Task[None]] = set()

    def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(connection(reader, writer))
        connections.add(task)
        task.add_done_callback(connections.discard)

    server = await asyncio.start_server(accepted, "127.0.0.1", 0, backlog=1024)
    served.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield served
    finally:
        server.close()
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)


async def _request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Exchange:
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")[:-2]
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    arrived = time.perf_counter()
    raw = await reader.readexactly(int(headers.get("content-length", 0)))
    return Exchange(
        path=first.split()[1],
        headers=headers,
        body=json.loads(raw) if raw else None,
        raw=raw,
        arrived=arrived,
        peer=writer.get_extra_info("peername"),
        writer=writer,
    )


@contextmanager
def threaded_server(answer: Answer = speak) -> Iterator[StreamServer]:
    """In an event loop and a thread of its own."""
    up, leave = threading.Event(), asyncio.Event()
    box: list[tuple[StreamServer, asyncio.AbstractEventLoop]] = []

    async def run() -> None:
        async with stream_server(answer) as served:
            box.append((served, asyncio.get_running_loop()))
            up.set()
            await leave.wait()

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    assert up.wait(20)
    served, loop = box[0]
    try:
        yield served
    finally:
        loop.call_soon_threadsafe(leave.set)
        thread.join(20)
        assert not thread.is_alive()
