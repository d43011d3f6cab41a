"""A load on a server that shares its event loop, so that each can wait for the other."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field

import uvloop

from packages.trserve.tests.bench.stream_server import Exchange, StreamServer, stream_server
from trserve.bench.client.http_client import HttpClient
from trserve.bench.client.request_record import RequestRecord
from trserve.bench.client.response_reading import ResponseReading
from trserve.bench.load_run import LoadRun


def bodies() -> Iterator[bytes]:
    number = 0
    while True:
        yield json.dumps({"model": "m", "prompt": str(number), "max_tokens": 4}).encode()
        number += 1


@dataclass
class ServerUnderLoad:
    """A run on a server, and the responses it is reading, by request."""

    server: StreamServer
    readings: list[ResponseReading] = field(default_factory=list)
    run: LoadRun = field(init=False)

    async def seen(self, prompt: str, chunks: int) -> None:
        """Until the generator has seen that much content of a response."""
        await until(lambda: len(self.readings[int(prompt)].content_at) >= chunks)

    def records(self) -> list[RequestRecord]:
        """In the order in which they were begun."""
        return sorted(self.run.records, key=lambda record: record.number)


async def until(true: Callable[[], bool]) -> None:
    while not true():  # noqa: ASYNC110 - what is awaited is not this test's to signal
        await asyncio.sleep(0)


Answer = Callable[[ServerUnderLoad, Exchange], Awaitable[None]]


def under_load(
    answer: Answer, send: Callable[[LoadRun], Awaitable[None]], *, after_done: float = 1.0
) -> ServerUnderLoad:
    """What became of a load that `send` makes."""

    async def whole() -> ServerUnderLoad:
        made: list[ServerUnderLoad] = []
        async with stream_server(lambda exchange: answer(made[0], exchange)) as server:
            load = ServerUnderLoad(server)
            made.append(load)
            async with HttpClient(
                server.url, "completions", {}, stream=True, timeout=100, after_done=after_done
            ) as client:

                async def serve(body: bytes, reading: ResponseReading) -> None:
                    load.readings.append(reading)
                    await client.serve(body, reading)

                load.run = LoadRun(serve, bodies())
                await send(load.run)
        return load

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(asyncio.wait_for(whole(), 60))


def text(word: str, finish: str | None = None) -> dict[str, object]:
    return {"choices": [{"index": 0, "text": word, "finish_reason": finish}]}
