"""What a streamed chunk costs: run this file with `--benchmark-only`."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.support.trserve.scripted_group import ScriptedGroup
from trsched.loops.stream import Stream
from trsched.request import Event, FinalEvent, GenerateRequest, TokenEvent
from trserve.server.group.event_delivery import EventDelivery
from trserve.server.group.served_group import ServedGroup
from trserve.server.response.chunk_writer import CHAT_CHUNK, ChunkWriter
from trserve.server.response.event_stream import EventStream
from trserve.server.response.prepared_request import PreparedRequest
from trserve.server.response.running_request import RunningRequest

STREAMS = 16
TOKENS = 200


class _Silent(ScriptedGroup):
    """Takes requests and says nothing: the benchmark delivers."""

    def submit(self, request: GenerateRequest) -> Stream:
        return Stream(request)

    def abort(self, stream: Stream, reason: object = "abort") -> None:
        del stream, reason


def _responses(served: ServedGroup) -> list[EventStream]:
    def prepared(i: int) -> PreparedRequest:
        request = GenerateRequest(request_id=str(i), prompt_ids=[1], max_tokens=TOKENS)
        return PreparedRequest(
            id=f"chatcmpl-{i:032}",
            request_id=str(i),
            created=1,
            model="demo",
            prompt_param="messages",
            prompt_tokens=1,
            requests=[request],
            stops=[],
            include_usage=False,
            logprobs=False,
            model_per_token=False,
        )

    return [
        EventStream(
            RunningRequest(served, prepared(i)),
            ChunkWriter(prepared(i), CHAT_CHUNK, served.fingerprint, None),
        )
        for i in range(STREAMS)
    ]


async def _run(served: ServedGroup, delivery: EventDelivery) -> int:
    """16 streams, a token for each in every turn: 3200 chunks from `deliver` to ASGI's `send`."""
    sends = 0
    delivery.bind(asyncio.get_running_loop())

    async def send(message: Any) -> None:
        nonlocal sends
        sends += 1

    async def receive() -> Any:
        await asyncio.Event().wait()

    responses = _responses(served)
    tasks = [
        asyncio.create_task(response({"type": "http"}, receive, send)) for response in responses
    ]
    await asyncio.sleep(0)
    streams = [next(iter(response.running.streams)) for response in responses]
    for position in range(TOKENS):
        events: list[Event] = [TokenEvent(position, 97 + position % 26, position % 2)]
        if position == TOKENS - 1:
            events.append(FinalEvent(reason="length"))
        delivery.deliver([(stream, list(events)) for stream in streams])
        for _ in range(3):  # the wake-up, the tasks' turn, their sends
            await asyncio.sleep(0)
    await asyncio.gather(*tasks)
    return sends


def test_chunks_in_process(benchmark: Any) -> None:
    delivery = EventDelivery()
    group = _Silent(delivery.deliver)
    served = ServedGroup(group, delivery)
    sends = benchmark(lambda: asyncio.run(_run(served, delivery)))
    group.close()
    assert sends == STREAMS * (TOKENS + 1)
    if benchmark.stats is not None:
        benchmark.extra_info["us_per_chunk"] = benchmark.stats["min"] / (STREAMS * TOKENS) * 1e6
