"""Responses as they come over sockets: cut anywhere, left open, broken off."""

from __future__ import annotations

import asyncio
import json

import pytest

from packages.trserve.tests.bench.server_under_load import ServerUnderLoad, text, under_load, until
from packages.trserve.tests.bench.stream_server import Exchange


def test_pieces_of_any_size_over_a_socket() -> None:
    """Events cut inside a character and inside a line end, HTTP chunks of one byte."""

    async def answer(load: ServerUnderLoad, exchange: Exchange) -> None:
        events = [text("é"), text("漢字"), text("", "stop")]
        stream = b"".join(
            b"data: " + json.dumps(event, ensure_ascii=False).encode() + b"\r\n\r\n"
            for event in events
        )
        await exchange.head()
        for byte in stream + b"data: [DONE]\r\n\r\n":
            await exchange.piece(bytes([byte]))
            await asyncio.sleep(0)
        await exchange.end(done=b"")

    load = under_load(answer, lambda run: run.open_loop([0.0], None))
    (record,) = load.records()
    assert record.failure is None
    assert (record.output_tokens, record.tokens_from, record.finish_reason) == (2, "chunks", "stop")


def test_a_connection_is_used_again_after_done_alone() -> None:
    """[DONE] ends the measured response, and the bytes after it are read all the same."""
    ended: dict[int, float] = {}

    async def answer(load: ServerUnderLoad, exchange: Exchange) -> None:
        await exchange.head()
        await exchange.event(text("a", "stop"))
        await exchange.piece(b"data: [DONE]\n\n")
        number = int(exchange.prompt)
        await until(lambda: load.readings[number].ended is not None)
        ended[number] = load.run.seconds
        await exchange.end(done=b"")

    load = under_load(answer, lambda run: run.closed_loop(1, 3))
    assert [record.failure for record in load.records()] == [None] * 3
    assert all(record.ended <= ended[record.number] for record in load.records())
    assert load.server.connections == 1


@pytest.mark.parametrize("goes_on", [False, True])
def test_a_response_that_stays_open_after_done_holds_up_nothing(goes_on: bool) -> None:
    """Whether nothing comes any more, or comments without end."""

    async def answer(load: ServerUnderLoad, exchange: Exchange) -> None:
        await exchange.head()
        await exchange.event(text("a", "stop"))
        await exchange.piece(b"data: [DONE]\n\n")
        while goes_on:
            await exchange.piece(b":\n\n")
            await asyncio.sleep(0)
        await asyncio.Event().wait()

    load = under_load(answer, lambda run: run.closed_loop(1, 2), after_done=0.05)
    assert [record.failure for record in load.records()] == [None] * 2
    assert load.server.connections == 2


def test_a_connection_that_breaks_after_done_breaks_no_response() -> None:
    async def answer(load: ServerUnderLoad, exchange: Exchange) -> None:
        await exchange.head()
        await exchange.event(text("a", "stop"))
        await exchange.piece(b"data: [DONE]\n\n")
        exchange.hang_up()

    load = under_load(answer, lambda run: run.closed_loop(1, 2))
    assert [record.failure for record in load.records()] == [None] * 2
    assert load.server.connections == 2
