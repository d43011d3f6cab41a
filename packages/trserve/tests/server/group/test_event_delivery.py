"""Events of a group's thread reach the request that waits for them, and nobody else."""

from __future__ import annotations

import asyncio
import threading

from trsched.loops.stream import Stream
from trsched.request import Event, FinalEvent, GenerateRequest, TokenEvent
from trserve.server.group.event_delivery import EventDelivery
from trserve.server.group.event_queue import EventQueue, StreamEvents

TOKEN = TokenEvent(0, 97, 0)
FINAL = FinalEvent(reason="stop")


def stream(name: str) -> Stream:
    return Stream(GenerateRequest(request_id=name, prompt_ids=[1], max_tokens=1))


def deliver_on_a_thread(delivery: EventDelivery, *batches: StreamEvents) -> None:
    def deliver() -> None:
        for batch in batches:
            delivery.deliver(batch)

    thread = threading.Thread(target=deliver)
    thread.start()
    thread.join(10)
    assert not thread.is_alive()


def test_each_queue_gets_its_streams_events_up_to_the_final_one() -> None:
    async def run() -> tuple[StreamEvents, StreamEvents]:
        delivery = EventDelivery()
        delivery.bind(asyncio.get_running_loop())
        first, second = EventQueue(), EventQueue()
        delivery.register(mine, first)
        delivery.register(other, second)
        late: list[Event] = [TOKEN]
        deliver_on_a_thread(
            delivery,
            [(mine, [TOKEN]), (other, [TOKEN, FINAL])],
            [(mine, [FINAL]), (other, late)],
        )
        return await first.get(), await second.get()

    mine, other = stream("mine"), stream("other")
    assert asyncio.run(run()) == (
        [(mine, [TOKEN]), (mine, [FINAL])],
        [(other, [TOKEN, FINAL])],
    )


def test_what_comes_for_a_forgotten_stream_is_dropped() -> None:
    async def run() -> StreamEvents:
        delivery = EventDelivery()
        delivery.bind(asyncio.get_running_loop())
        queue = EventQueue()
        delivery.register(gone, queue)
        delivery.register(here, queue)
        delivery.forget(gone)
        deliver_on_a_thread(delivery, [(gone, [TOKEN]), (here, [TOKEN])])
        return await queue.get()

    gone, here = stream("gone"), stream("here")
    assert asyncio.run(run()) == [(here, [TOKEN])]


def test_a_closed_queue_returns_at_once() -> None:
    async def run() -> StreamEvents:
        queue = EventQueue()
        waiting = asyncio.ensure_future(queue.get())
        await asyncio.sleep(0)
        queue.close()
        return await waiting + await queue.get()

    assert asyncio.run(run()) == []


def test_a_group_that_outlives_the_server_may_go_on_delivering() -> None:
    delivery = EventDelivery()
    mine = stream("mine")

    async def run() -> None:
        delivery.bind(asyncio.get_running_loop())

    deliver_on_a_thread(delivery, [(mine, [TOKEN])])
    asyncio.run(run())
    delivery.deliver([(mine, [TOKEN])])  # the loop is closed
