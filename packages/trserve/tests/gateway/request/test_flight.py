"""A request's task that is stopped from outside: of several reasons the one that ends it stands."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence

import pytest

from trserve.gateway.config.config import Timeouts
from trserve.gateway.request.flight import Flight, Stop
from trserve.gateway.request.watchdog import overdue

ENDS: tuple[Stop, ...] = ("client left", "client stalled", "deadline", "shutdown")
GOES_ON: tuple[Stop, ...] = ("timeout", "instance removed", "instance down")


async def stopped(reasons: Sequence[Stop]) -> tuple[list[Stop | None], Flight]:
    """What the task hears of reasons that come before it runs again, and of nothing else."""
    heard: list[Stop | None] = []
    made: asyncio.Future[Flight] = asyncio.get_running_loop().create_future()

    async def serve() -> None:
        flight = Flight("r", 0.0, math.inf, stream=True)
        made.set_result(flight)
        for _ in range(2):  # a second interrupt would be heard in the second round
            try:
                await asyncio.sleep(0 if heard else 60)
            except asyncio.CancelledError:
                heard.append(flight.interrupted())
        await flight.settle()

    task = asyncio.create_task(serve())
    flight = await made
    for why in reasons:
        flight.stop(why)
    await asyncio.wait_for(task, 10)
    assert task.cancelling() == 0
    return heard, flight


@pytest.mark.asyncio
@pytest.mark.parametrize("first", GOES_ON)
@pytest.mark.parametrize("then", ENDS)
async def test_the_end_beats_what_may_go_on_elsewhere(first: Stop, then: Stop) -> None:
    heard, flight = await stopped([first, then])
    assert heard == [then]
    assert flight.stopped == then


@pytest.mark.asyncio
@pytest.mark.parametrize("first", ENDS)
@pytest.mark.parametrize("then", [*GOES_ON, *ENDS])
async def test_the_first_end_stands(first: Stop, then: Stop) -> None:
    assert (await stopped([first, then]))[0] == [first]


@pytest.mark.asyncio
async def test_of_two_that_let_it_go_on_the_first_is_heard_and_it_may_be_stopped_again() -> None:
    heard, flight = await stopped(["timeout", "instance removed"])
    assert heard == ["timeout"]
    assert flight.stopped is None


@pytest.mark.asyncio
async def test_nothing_interrupts_a_task_whose_client_has_its_answer() -> None:
    flight = Flight("r", 0.0, math.inf, stream=False)
    flight.over()
    flight.stop("client left")
    await asyncio.sleep(0)
    assert flight.stopped is None


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("stream", "waited", "why"),
    [(True, 2.5, "timeout"), (True, 1.5, None), (False, 2.5, None), (False, 8.5, "timeout")],
)
async def test_how_long_a_first_byte_may_take(stream: bool, waited: float, why: Stop) -> None:
    """Of an answer that is no stream it is about the last one, too."""
    flight = Flight("r", 100.0, math.inf, stream=stream)
    flight.enter("first byte", 100.0)
    timeouts = Timeouts(first_byte_s=2.0, whole_s=8.0, idle_s=0.1, client_s=0.1)
    assert overdue(flight, timeouts, 100.0 + waited) == why
