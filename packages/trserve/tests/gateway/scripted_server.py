"""A server on a real socket that does with each request what the test wants."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

Answer = Callable[[str, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class ScriptedServer:
    """answer(path, writer) is called for each request, and the connection closed after it."""

    answer: Answer
    url: str = ""
    paths: list[str] = field(default_factory=list)
    heads: list[str] = field(default_factory=list)
    open: int = 0
    most_open: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            path = head.split(b" ", 2)[1].decode()
            self.paths.append(path)
            self.heads.append(head.decode("latin-1").lower())
            answering = asyncio.ensure_future(self.answer(path, writer))
            leaving = asyncio.ensure_future(reader.read())
            await asyncio.wait([answering, leaving], return_when=asyncio.FIRST_COMPLETED)
            for task in (answering, leaving):
                task.cancel()
            await asyncio.gather(answering, leaving, return_exceptions=True)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.open -= 1
            writer.close()


@asynccontextmanager
async def scripted(answer: Answer) -> AsyncIterator[ScriptedServer]:
    scripted = ScriptedServer(answer)
    server = await asyncio.start_server(scripted.serve, "127.0.0.1", 0)
    scripted.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield scripted
    finally:
        server.close()


def response(status: int, body: bytes = b"") -> bytes:
    head = f"HTTP/1.1 {status} -\r\nconnection: close\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def always(status: int, body: bytes = b"") -> Answer:
    return raw(response(status, body))


def raw(data: bytes) -> Answer:
    async def answer(path: str, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()

    return answer


async def hang(path: str, writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def dribble(path: str, writer: asyncio.StreamWriter) -> None:
    """A page without an end, a line every few milliseconds."""
    writer.write(b"HTTP/1.1 200 -\r\nconnection: close\r\n\r\n")
    while True:
        writer.write(b"vllm:num_requests_running 1\n")
        await writer.drain()
        await asyncio.sleep(0.002)
