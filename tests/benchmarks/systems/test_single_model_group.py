"""std-serving over two servers of the profile engine: real processes and sockets, tiny steps."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import pairwise

import pytest

from benchmarks.load.system import TimedResponse, WorkItem
from benchmarks.systems.path import visits
from benchmarks.systems.single_model_group import single_model_groups
from benchmarks.systems.std_serving import ServerCall, StdServing

MODELS = [
    {"engine": "profile", "name": "small", "step_ms": [0.2], "eos_rate": 0.5},
    {"engine": "profile", "name": "large", "step_ms": [0.5], "extend_token_ms": 100.0},
]
ITEMS = [WorkItem(number, (65 + number, 66), 30, seed=number) for number in range(8)]
RECORDED = {
    item.number: TimedResponse(
        0.0,
        tokens=[40 + (item.number * 7 + i) % 60 for i in range(item.max_tokens)],
        models=[int(i % (item.number + 2) == 1) for i in range(item.max_tokens)],
    )
    for item in ITEMS
}


@pytest.fixture(scope="module")
def system() -> Iterator[StdServing]:
    with single_model_groups(MODELS, concurrency=3, context=64) as servers:
        yield StdServing("std-serving", servers, RECORDED, "one_token_visits", concurrency=3)


def test_the_recorded_tokens_arrive_in_order(system: StdServing) -> None:
    async def serve() -> list[TimedResponse]:
        return list(await asyncio.gather(*map(system.serve, ITEMS)))

    for item, outcome in zip(ITEMS, asyncio.run(serve()), strict=True):
        recorded = RECORDED[item.number]
        assert (outcome.tokens, outcome.models) == (recorded.tokens, recorded.models)
        assert outcome.times == sorted(outcome.times)
        assert len(outcome.times) == item.max_tokens
        assert outcome.began < outcome.times[0]


def test_each_visit_is_one_request_for_its_tokens(system: StdServing) -> None:
    async def steps() -> list[ServerCall]:
        return [step async for step in system.steps(ITEMS[1])]

    made = asyncio.run(steps())
    assert [step.visit for step in made] == visits(RECORDED[1].models, "one_token_visits")
    assert all(b'"completion_tokens":1' in step.reply for step in made)
    assert all(one.ended <= other.began for one, other in pairwise(made))


def test_a_refused_request_says_why(system: StdServing) -> None:
    refused = WorkItem(0, (65,) * 65, 30, seed=0)

    async def serve() -> TimedResponse:
        return await system.serve(refused)

    with pytest.raises(RuntimeError, match=r"400.*context"):
        asyncio.run(serve())
