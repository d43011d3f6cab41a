"""A streamed chunk in the server, from the group's delivery to ASGI's `send`."""

from __future__ import annotations

import asyncio
from typing import Any

from benchmarks.unit_costs.conftest import Cost
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


def _answers(serving: ServedGroup) -> list[EventStream]:
    def order(i: int) -> PreparedRequest:
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
            RunningRequest(serving, order(i)),
            ChunkWriter(order(i), CHAT_CHUNK, serving.fingerprint, None),
        )
        for i in range(STREAMS)
    ]


async def _run(serving: ServedGroup, bridge: EventDelivery) -> int:
    """16 streams, a token for each in every turn: 3200 chunks from `deliver` to ASGI's `send`."""
    sends = 0
    bridge.bind(asyncio.get_running_loop())

    async def send(message: Any) -> None:
        nonlocal sends
        sends += 1

    async def receive() -> Any:
        await asyncio.Event().wait()

    answers = _answers(serving)
    tasks = [asyncio.create_task(answer({"type": "http"}, receive, send)) for answer in answers]
    await asyncio.sleep(0)
    streams = [next(iter(answer.running.streams)) for answer in answers]
    for position in range(TOKENS):
        events: list[Event] = [TokenEvent(position, 97 + position % 26, position % 2)]
        if position == TOKENS - 1:
            events.append(FinalEvent(reason="length"))
        bridge.deliver([(stream, list(events)) for stream in streams])
        for _ in range(3):  # the wake-up, the tasks' turn, their sends
            await asyncio.sleep(0)
    await asyncio.gather(*tasks)
    return sends


def test_chunks_in_process(cost: Cost) -> None:
    bridge = EventDelivery()
    group = _Silent(bridge.deliver)
    serving = ServedGroup(group, bridge)
    chunks = STREAMS * TOKENS
    sends = cost("streamed_chunk_us", lambda: asyncio.run(_run(serving, bridge)), chunks)
    group.close()
    assert sends == STREAMS * (TOKENS + 1)
