"""Who may come in, and when all have gone: without sockets."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from tests.support.gateway.gateway_parts import small_config
from trserve.gateway.access.key_lookup import Caller
from trserve.gateway.access.rate_limit import KeyLimits, RateLimiter
from trserve.gateway.http.body_parser import parse_body
from trserve.gateway.request.in_flight_requests import InFlightRequests
from trserve.gateway.request.interruptible_task import InterruptibleTask
from trserve.http.errors import ApiError

BODY = parse_body(b'{"model": "small", "messages": [{"content": "Hi"}]}', "chat")

pytestmark = pytest.mark.asyncio


def opened(**sections: Any) -> InFlightRequests:
    return InFlightRequests(small_config(**sections))


def caller(models: frozenset[str] | None = None, **limits: Any) -> Caller:
    return Caller("alice", models, False, RateLimiter(KeyLimits(**limits)))


@contextmanager
def under_way(
    in_flight: InFlightRequests, whose: Caller | None = None, tokens: int = 0
) -> Iterator[InterruptibleTask]:
    task = InterruptibleTask(0.0, math.inf, stream=False)
    with in_flight.admitted(task, BODY, whose, lambda: tokens):
        yield task


def refused(in_flight: InFlightRequests, whose: Caller | None = None) -> tuple[int, str | None]:
    with pytest.raises(ApiError) as caught, under_way(in_flight, whose):
        pass
    return caught.value.status_code, caught.value.code


async def test_so_many_at_once_and_no_more() -> None:
    in_flight = opened(max_waiting=2)
    with ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(under_way(in_flight))
        assert refused(in_flight) == (429, "queue_full")
        in_flight.configure(small_config(max_waiting=3))
        stack.enter_context(under_way(in_flight))
        assert len(in_flight) == 3
    assert len(in_flight) == 0


async def test_a_key_is_for_its_models_and_its_limits() -> None:
    in_flight = opened()
    assert refused(in_flight, caller(frozenset(["other"]))) == (403, "model_not_allowed")
    alice = caller(frozenset(["small"]), concurrency=1)
    with under_way(in_flight, alice):
        assert refused(in_flight, alice) == (429, "rate_limit_exceeded")
        with under_way(in_flight):
            pass
    with under_way(in_flight, alice):
        assert len(in_flight) == 1


async def test_tokens_are_settled_at_the_end() -> None:
    in_flight, alice = opened(), caller(tokens_per_minute=100)
    with under_way(in_flight, alice, tokens=90):
        pass
    with under_way(in_flight, alice, tokens=90):
        pass
    assert refused(in_flight, alice) == (429, "rate_limit_exceeded")


async def test_what_is_refused_is_not_under_way_and_takes_nothing() -> None:
    in_flight, alice = opened(max_waiting=1), caller(requests_per_minute=2)
    with under_way(in_flight, alice):
        assert refused(in_flight, alice) == (429, "queue_full")
    with under_way(in_flight, alice):
        assert len(in_flight) == 1


async def test_draining_ends_with_the_last_one() -> None:
    in_flight = opened()
    with under_way(in_flight):
        draining = asyncio.create_task(in_flight.drain(20))
        await asyncio.sleep(0)
        assert in_flight.draining
        assert refused(in_flight) == (503, "shutdown")
        assert not draining.done()
    assert await draining


async def test_draining_nothing_is_over_at_once_and_something_after_its_time() -> None:
    assert await opened().drain(20)
    in_flight = opened()
    with under_way(in_flight):
        assert not await in_flight.drain(0)


async def test_all_are_stopped_with_a_reason() -> None:
    in_flight, entered = opened(), asyncio.Event()
    heard: list[object] = []

    async def serve() -> None:
        with under_way(in_flight) as task:
            entered.set()
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                heard.append(task.interrupted())

    serving = asyncio.create_task(serve())
    await entered.wait()
    in_flight.stop_all()
    await serving
    assert heard == ["shutdown"]
    assert len(in_flight) == 0
