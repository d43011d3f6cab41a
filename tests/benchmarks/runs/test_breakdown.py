"""The parts of a small model's step, over servers of the profile engine."""

from __future__ import annotations

import asyncio

from benchmarks.load.system import TimedResponse, WorkItem
from benchmarks.runs.breakdown import our_breakdown, std_breakdown
from benchmarks.systems.single_model_group import single_model_groups
from benchmarks.systems.std_serving import StdServing
from benchmarks.systems.trserve_server import trserve_server

STEP_MS = 4.0
SMALL = {"engine": "profile", "name": "small", "step_ms": [STEP_MS]}
LARGE = {"engine": "profile", "name": "large", "step_ms": [1.0]}
ITEM = WorkItem(0, (65, 66, 67), 40, seed=1)


def check(parts: dict[str, float]) -> None:
    assert STEP_MS <= parts["engine"] < 10 * STEP_MS
    assert parts["inference_share"] == parts["engine"] / parts["step"]


def test_std_serving() -> None:
    recorded = {0: TimedResponse(0.0, tokens=[65] * 40, models=[0, 0, 1, 0] * 10)}
    with single_model_groups([SMALL, LARGE], concurrency=1, context=64) as servers:
        system = StdServing("std-serving", servers, recorded, "one_token_visits", concurrency=1)
        parts = asyncio.run(std_breakdown(system, ITEM, last=16))
    check(parts)
    assert parts["step"] > parts["engine"]


def test_our_server() -> None:
    group = {
        "name": "pair",
        "models": [{**SMALL, "extend_token_ms": 2.0}, LARGE],
        "router": {"name": "bernoulli", "settings": {"p": 0.2}},
        "context": 64,
    }
    with trserve_server("ours", group) as server:
        parts = asyncio.run(our_breakdown(server, ITEM, last=16))
    assert STEP_MS <= parts["engine"] < 3 * STEP_MS  # a step after a visit ingests more
    assert parts["step"] > STEP_MS
