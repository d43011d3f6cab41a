"""A request's task that is stopped from outside: of several reasons the one that ends it stands."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence

import pytest

from trserve.gateway.config.config import Timeouts
from trserve.gateway.request.in_flight_requests import overdue
from trserve.gateway.request.interruptible_task import InterruptibleTask, Phase
from trserve.gateway.request.stop_reasons import StopReason

ENDS: tuple[StopReason, ...] = ("client left", "client stalled", "deadline", "shutdown")
GOES_ON: tuple[StopReason, ...] = ("timeout", "instance removed", "instance down")


async def stopped(
    reasons: Sequence[StopReason],
) -> tuple[list[StopReason | None], InterruptibleTask]:
    """What the task hears of reasons that come before it runs again, and of nothing else."""
    heard: list[StopReason | None] = []
    made: asyncio.Future[InterruptibleTask] = asyncio.get_running_loop().create_future()

    async def serve() -> None:
        task = InterruptibleTask(0.0, math.inf, stream=True)
        made.set_result(task)
        for _ in range(2):  # a second interrupt would be heard in the second round
            try:
                await asyncio.sleep(0 if heard else 60)
            except asyncio.CancelledError:
                heard.append(task.interrupted())
        await task.settle()

    serving = asyncio.create_task(serve())
    task = await made
    for why in reasons:
        task.stop(why)
    await asyncio.wait_for(serving, 10)
    assert serving.cancelling() == 0
    return heard, task


@pytest.mark.asyncio
@pytest.mark.parametrize("first", GOES_ON)
@pytest.mark.parametrize("then", ENDS)
async def test_the_end_beats_what_may_go_on_elsewhere(first: StopReason, then: StopReason) -> None:
    heard, task = await stopped([first, then])
    assert heard == [then]
    assert task.stopped == then


@pytest.mark.asyncio
@pytest.mark.parametrize("first", ENDS)
@pytest.mark.parametrize("then", [*GOES_ON, *ENDS])
async def test_the_first_end_stands(first: StopReason, then: StopReason) -> None:
    assert (await stopped([first, then]))[0] == [first]


@pytest.mark.asyncio
async def test_of_two_that_let_it_go_on_the_first_is_heard_and_it_may_be_stopped_again() -> None:
    heard, task = await stopped(["timeout", "instance removed"])
    assert heard == ["timeout"]
    assert task.stopped is None


@pytest.mark.asyncio
async def test_nothing_interrupts_a_task_whose_client_has_its_answer() -> None:
    task = InterruptibleTask(0.0, math.inf, stream=False)
    task.over()
    task.stop("client left")
    await asyncio.sleep(0)
    assert task.stopped is None


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("stream", "waited", "why"),
    [(True, 2.5, "timeout"), (True, 1.5, None), (False, 2.5, None), (False, 8.5, "timeout")],
)
async def test_how_long_a_first_byte_may_take(stream: bool, waited: float, why: StopReason) -> None:
    """Of an answer that is no stream it is about the last one, too."""
    task = InterruptibleTask(100.0, math.inf, stream=stream)
    task.enter("first byte", 100.0)
    timeouts = Timeouts(first_byte_s=2.0, whole_s=8.0, idle_s=0.1, client_s=0.1)
    assert overdue(task, timeouts, 100.0 + waited) == why


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("why", "stream", "phase", "waited", "too_slow"),
    [
        ("timeout", True, "first byte", 1.0, True),
        ("timeout", True, "streaming", 1.0, True),
        ("timeout", False, "first byte", 9.0, False),
        ("deadline", True, "first byte", 5.1, True),
        ("deadline", True, "first byte", 4.9, False),
        ("deadline", True, "streaming", 9.0, False),
        ("deadline", True, "waiting", 9.0, False),
        ("deadline", False, "first byte", 9.0, False),
        ("client left", True, "first byte", 9.0, False),
        ("shutdown", True, "first byte", 9.0, False),
    ],
)
async def test_when_a_stop_tells_against_the_instance(
    why: StopReason, stream: bool, phase: Phase, waited: float, too_slow: bool
) -> None:
    """Of ten seconds that the request has."""
    task = InterruptibleTask(100.0, 110.0, stream=stream)
    task.enter(phase, 110.0 - waited)
    task.stop(why)
    assert task.instance_too_slow(110.0) == too_slow
    with pytest.raises(asyncio.CancelledError):
        await asyncio.sleep(0)
    assert task.interrupted() == why
