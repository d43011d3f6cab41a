"""One streamed request over a connection of its own, as light a client as can be."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any


async def post_stream(name: str, port: int, path: str, body: bytes) -> AsyncIterator[Any]:
    """POST JSON to a port of this host; the reply's server-sent events, as they come.

    name: of the server, for errors. Raises RuntimeError if the status is not 200, or at an event
    that is an error.
    """
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request_head(path, len(body)) + body)
        status = await reader.readline()
        if b" 200 " not in status:
            reply = await reader.read(-1)
            raise RuntimeError(f"{name}: {status.decode().strip()}: {reply[-500:]!r}")
        async for line in reader:
            if line.startswith(b"data: {"):
                event = json.loads(line[6:])
                if "error" in event:
                    raise RuntimeError(f"{name} ended a stream: {event['error']}")
                yield event
    finally:
        writer.close()


def request_head(path: str, length: int) -> bytes:
    """The head of an HTTP POST of JSON on a connection that is closed after it."""
    return (
        f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n"
        "Content-Type: application/json\r\nConnection: close\r\n\r\n"
    ).encode()
