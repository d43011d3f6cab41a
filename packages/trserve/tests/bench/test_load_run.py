"""Loads on a real server, against what that server wrote down.

Server and generator share an event loop. After each chunk the server waits until the generator has
seen it, so every time of the generator lies between two of the server's, on any machine: nothing
here depends on how fast it is.
"""

from __future__ import annotations

import asyncio
import time

import pytest
import uvloop

from packages.trserve.tests.bench.server_under_load import (
    Answer,
    ServerUnderLoad,
    bodies,
    text,
    under_load,
    until,
)
from packages.trserve.tests.bench.stream_server import Exchange
from trserve.bench.client.response_reading import ResponseReading
from trserve.bench.load_run import LoadRun


def test_latencies_are_the_servers_own() -> None:
    """TTFT, ITL, TPOT and E2E of each request lie between times that the server noted."""
    seen: dict[str, list[float]] = {}

    async def answer(load: ServerUnderLoad, exchange: Exchange) -> None:
        tokens = 3 + int(exchange.prompt)
        seen[exchange.prompt] = []
        await asyncio.sleep(0.02 * (1 + int(exchange.prompt)))
        await exchange.head()
        for token in range(tokens):
            await exchange.event(text("a"))
            await load.seen(exchange.prompt, token + 1)
            seen[exchange.prompt].append(time.perf_counter())
            await asyncio.sleep(0.005)
        usage = {"completion_tokens": tokens, "prompt_tokens": 9}
        await exchange.event({"choices": [], "usage": usage} | {"ignored": 1})
        await exchange.end()

    at = [0.0, 0.01, 0.02, 0.1]
    load = under_load(answer, lambda run: run.open_loop(at, None))
    began = load.run.started
    for record, due in zip(load.records(), at, strict=True):
        exchange = load.server.asked(str(record.number))
        earliest = [moment - began for moment in exchange.wrote]
        latest = [moment - began for moment in seen[exchange.prompt]]
        tokens = len(latest)
        assert record.failure is None
        assert (record.output_tokens, record.input_tokens) == (tokens, 9)
        assert len(record.content_at) == tokens
        for low, content, high in zip(earliest, record.content_at, latest, strict=False):
            assert low <= content <= high
        assert record.scheduled == due
        assert record.ttft is not None
        assert earliest[0] - due <= record.ttft <= latest[0] - due
        assert record.tpot is not None
        assert (
            (earliest[tokens - 1] - latest[0]) / (tokens - 1)
            <= record.tpot
            <= (latest[-1] - earliest[0]) / (tokens - 1)
        )
        for gap, low, high in zip(record.gaps(), range(tokens - 1), range(1, tokens), strict=True):
            assert earliest[high] - latest[low] <= gap <= latest[high] - earliest[low]
        assert record.e2e >= earliest[-1] - due
        assert due <= record.begun <= record.sent <= exchange.arrived - began <= earliest[0]


def test_nothing_is_sent_before_its_time_nor_waits_for_others() -> None:
    """All arrive while no one is answered; and none before it is due."""
    at = [0.0, 0.0, 0.03, 0.0311, 0.05, 0.2]

    async def answer(load: ServerUnderLoad, exchange: Exchange) -> None:
        await until(lambda: len(load.server.exchanges) == len(at))
        await exchange.head()
        await exchange.event(text("a", "stop"))
        await exchange.end()

    load = under_load(answer, lambda run: run.open_loop(at, None))
    began = load.run.started
    assert [record.scheduled for record in load.records()] == at
    for record in load.records():
        assert load.server.asked(str(record.number)).arrived - began >= record.scheduled
        assert record.lag >= 0
    assert load.run.peak_in_flight == len(at)
    assert load.server.connections == len(at)


def stall_at_first(stalled: int, released: list[float]) -> Answer:
    """Answers nothing until `stalled` requests are there, and half a second longer."""

    async def answer(load: ServerUnderLoad, exchange: Exchange) -> None:
        await until(lambda: len(load.server.exchanges) >= stalled)
        if not released:
            await asyncio.sleep(0.5)
            released.append(time.perf_counter())
        await exchange.head()
        await exchange.event(text("a", "stop"))
        await exchange.end()

    return answer


def test_a_stall_is_charged_to_all_that_came_meanwhile() -> None:
    """The open loop's latencies hold the stall; a closed loop sees it once, and omits the rest."""
    at = [0.01 * number for number in range(10)]
    released: list[float] = []
    load = under_load(stall_at_first(len(at), released), lambda run: run.open_loop(at, None))
    stalled_until = released[0] - load.run.started
    assert stalled_until >= 0.5
    for record in load.records():
        assert record.ttft is not None
        assert record.ttft >= stalled_until - record.scheduled
        assert record.e2e >= stalled_until - record.scheduled >= 0.4

    released = []
    load = under_load(stall_at_first(1, released), lambda run: run.closed_loop(1, len(at)))
    stalled_until = released[0] - load.run.started
    first, *others = load.records()
    assert first.e2e >= 0.5
    assert all(record.scheduled >= stalled_until for record in others)


def test_a_limit_in_flight_is_charged_too() -> None:
    """What waits for a slot waits from its schedule on, and is told apart from the lag."""
    at = [0.01 * number for number in range(5)]
    released: list[float] = []
    load = under_load(stall_at_first(1, released), lambda run: run.open_loop(at, 1))
    stalled_until = released[0] - load.run.started
    first, *others = load.records()
    assert first.slot_wait < stalled_until
    for record in others:
        assert record.sent >= stalled_until
        assert record.slot_wait == record.sent - record.begun
        assert record.e2e >= stalled_until - record.scheduled
    assert load.run.peak_in_flight == 1
    assert [exchange.prompt for exchange in load.server.exchanges] == list("01234")
    assert load.server.connections == 1


def test_a_closed_loop_keeps_its_clients_busy() -> None:
    """Never more than that many in flight, as many connections, and the next at once."""
    at_once: list[int] = []

    async def answer(load: ServerUnderLoad, exchange: Exchange) -> None:
        at_once.append(load.run.in_flight)
        if load.run.begun < 12:
            await until(lambda: load.run.in_flight == 3)
        await exchange.head()
        await exchange.event(text("a", "stop"))
        await exchange.end()

    load = under_load(answer, lambda run: run.closed_loop(3, 12))
    assert (len(load.run.records), load.run.begun) == (12, 12)
    assert max(at_once) == load.run.peak_in_flight == 3
    assert load.server.connections == 3
    assert sorted(exchange.prompt for exchange in load.server.exchanges) == sorted(
        map(str, range(12))
    )


def test_a_closed_loop_ends_by_time() -> None:
    """None begins after that; what is in flight ends."""
    release = 0.15

    async def answer(load: ServerUnderLoad, exchange: Exchange) -> None:
        await exchange.head()
        await until(lambda: load.run.seconds > release)
        await exchange.event(text("a", "stop"))
        await exchange.end()

    load = under_load(answer, lambda run: run.closed_loop(2, None, 0.1))
    assert [record.failure for record in load.records()] == [None, None]
    assert all(record.ended > release for record in load.records())


def test_cancelling_keeps_what_was_seen() -> None:
    """The first two are complete; the rest are cut off, and their connections closed."""

    async def answer(load: ServerUnderLoad, exchange: Exchange) -> None:
        if int(exchange.prompt) >= 2:
            await asyncio.Event().wait()
        await exchange.head()
        await exchange.event(text("a", "stop"))
        await exchange.end()

    async def send(run: LoadRun) -> None:
        task = asyncio.ensure_future(run.open_loop([0.0, 0.0, 0.0, 0.0, 50.0], None))
        await until(lambda: len(run.records) == 2)
        await until(lambda: run.in_flight == 2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    load = under_load(answer, send)
    assert (load.run.begun, len(load.run.records), load.run.in_flight) == (4, 2, 0)
    assert [record.failure for record in load.records()] == [None, None]


def test_what_waits_for_a_slot_was_not_sent() -> None:
    async def answer(load: ServerUnderLoad, exchange: Exchange) -> None:
        await asyncio.Event().wait()

    async def send(run: LoadRun) -> None:
        task = asyncio.ensure_future(run.open_loop([0.0] * 5, 2))
        await until(lambda: run.begun == 5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run = under_load(answer, send).run
    assert (run.begun, run.sent, run.records) == (5, 2, [])


def test_an_error_that_nobody_foresaw_is_its_request_s_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The rest of the load goes on."""

    async def answer(load: ServerUnderLoad, exchange: Exchange) -> None:
        await exchange.head()
        await exchange.event(text("boom" if exchange.prompt == "1" else "a", "stop"))
        await exchange.end()

    received = ResponseReading.received

    def fails(self: ResponseReading, data: bytes, now: float) -> None:
        if b"boom" in data:
            raise KeyError("unforeseen")
        received(self, data, now)

    monkeypatch.setattr(ResponseReading, "received", fails)
    load = under_load(answer, lambda run: run.open_loop([0.0, 0.01, 0.02], None))
    kinds = [record.failure and record.failure.message for record in load.records()]
    assert kinds == [None, "KeyError('unforeseen')", None]


def test_a_generator_that_was_late_catches_up_at_once() -> None:
    """All that fell due while its loop was busy goes out in the same turn of that loop."""
    turn, began_in = 0, []

    async def serve(body: bytes, reading: ResponseReading) -> None:
        began_in.append(turn)
        if len(began_in) == 1:
            busy_until = time.perf_counter() + 0.05
            while time.perf_counter() < busy_until:
                pass

    async def whole() -> LoadRun:
        async def count_turns() -> None:
            nonlocal turn
            while True:
                turn += 1
                await asyncio.sleep(0)

        turns = asyncio.ensure_future(count_turns())
        run = LoadRun(serve, bodies())
        await run.open_loop([0.001 * number for number in range(20)], None)
        turns.cancel()
        return run

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        run = runner.run(whole())
    first, *late = began_in
    assert len(late) == 19
    assert set(late) == {late[0]} != {first}
    assert max(record.lag for record in run.records) >= 0.04
