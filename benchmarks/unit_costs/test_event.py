"""A server-sent event of one token: written by the server, read by `trserve bench`."""

from __future__ import annotations

import json

from benchmarks.unit_costs.conftest import Cost
from trsched.models.vocabulary import ByteVocabulary
from trsched.request import GenerateRequest, TokenEvent
from trserve.bench.client.response_reading import ResponseReading
from trserve.server.response.chunk_writer import CHAT_CHUNK, ChunkWriter
from trserve.server.response.prepared_request import PreparedRequest
from trserve.server.response.running_choice import RunningChoice
from trserve.server.text.tokenizer import Tokenizer

COUNT = 100


def _written(tokenizer: Tokenizer) -> list[bytes]:
    order = PreparedRequest(
        id="chatcmpl-0",
        request_id="0",
        created=1,
        model="demo",
        prompt_param="messages",
        prompt_tokens=1,
        requests=[GenerateRequest(request_id="0", prompt_ids=[1], max_tokens=COUNT)],
        stops=[],
        include_usage=False,
        logprobs=False,
        model_per_token=False,
    )
    choice = RunningChoice(0, tokenizer, order.stops, 1)
    writer = ChunkWriter(order, CHAT_CHUNK, "fingerprint", None)
    events = []
    for position in range(COUNT):
        choice.receive([TokenEvent(position, 97 + position % 26, 0)], 0.0)
        events.append(writer.write(choice))
    return events


def test_written(cost: Cost) -> None:
    tokenizer = Tokenizer(ByteVocabulary())
    events = cost("event_written_us", lambda: _written(tokenizer), COUNT)
    assert len(events) == COUNT
    assert json.loads(events[1].removeprefix(b"data: "))["choices"][0]["delta"]["content"] == "b"


def test_read(cost: Cost) -> None:
    events = _written(Tokenizer(ByteVocabulary()))

    def read() -> ResponseReading:
        reading = ResponseReading()
        for event in events:
            reading.received(event, 0.0)
        return reading

    assert len(cost("event_read_us", read, COUNT).content_at) == COUNT
