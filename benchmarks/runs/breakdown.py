"""Where the time of one step of the small model goes: in std-serving, and in our server.

All functions measure one request alone on an otherwise idle system, over its last steps, and
return milliseconds a step:

step: as the client sees it. engine: the forward alone. inference_share: engine / step.
"""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from benchmarks.load.keep_alive import KeepAlive
from benchmarks.load.system import WorkItem
from benchmarks.runs.bare_step import long_response_step
from benchmarks.systems.llama_server import LlamaServer
from benchmarks.systems.sglang_server import SglangServer
from benchmarks.systems.single_model_group import SingleModelGroup
from benchmarks.systems.std_serving import ServerCall, StdServing
from benchmarks.systems.trserve_server import TrserveServer

LAST = 128
_LONG_RUN = 64


async def std_breakdown(system: StdServing, item: WorkItem, last: int = LAST) -> dict[str, float]:
    """Of std-serving's last requests to the small model's server.

    Over llama.cpp's server also: server_prompt and server_predicted (its own account: finding the
    kept prompt and running what is new of it; the tokens after the first), http_and_queue (all
    outside these), prompt_tokens run in a step. engine is then the server's step in a long
    response after the same prompt. Over SGLang's: http_and_queue is what its account of the
    whole request leaves.
    """
    server = system.servers[0]
    if isinstance(server, SingleModelGroup):
        before = await _engine_ms(server.server)
        steps = await _small_steps(system, item, last)
        step_ms = _mean_step(steps)
        return _parts(step_ms, _mean_between(before, await _engine_ms(server.server)))
    steps = await _small_steps(system, item, last)
    step_ms = _mean_step(steps)
    if isinstance(server, SglangServer):
        served_ms = statistics.fmean(_served_ms(step.reply) for step in steps)
        engine_ms = await _long_sglang_step(server, item)
        return {**_parts(step_ms, engine_ms), "http_and_queue": step_ms - served_ms}
    timings = [json.loads(step.reply)["timings"] for step in steps]
    prompt_ms = statistics.fmean(t["prompt_ms"] for t in timings)
    predicted_ms = statistics.fmean(t["predicted_ms"] for t in timings)
    assert isinstance(server, LlamaServer)
    engine_ms = await _long_response_step(server, [*item.prompt_ids, *system.recorded_tokens(item)])
    return {
        **_parts(step_ms, engine_ms),
        "server_prompt": prompt_ms,
        "server_predicted": predicted_ms,
        "http_and_queue": step_ms - prompt_ms - predicted_ms,
        "prompt_tokens": statistics.fmean(t["prompt_n"] for t in timings),
    }


async def our_breakdown(
    server: TrserveServer, item: WorkItem, last: int = LAST
) -> dict[str, float]:
    """Of the last tokens that the small model made in a row, from one's arrival to the next's.

    The request runs twice, the second time without its last `last` tokens: engine is the small
    model's mean step in the difference.
    """
    before = await _engine_ms(server)
    outcome = await server.serve(item)
    between = await _engine_ms(server)
    length = len(outcome.tokens)
    await server.serve(replace(item, max_tokens=max(1, length - last)))
    after = await _engine_ms(server)
    whole, part = _difference(before, between), _difference(between, after)
    arrivals = list(zip(outcome.times, outcome.models, strict=True))[-last - 1 :]
    gaps = [
        1e3 * (time - earlier)
        for (earlier, one), (time, other) in pairwise(arrivals)
        if one == other == 0
    ]
    return _parts(statistics.fmean(gaps), _mean_between(part, whole))


def step_parts(breakdown: dict[str, float]) -> dict[str, float]:
    """The step's milliseconds in parts that add up to it, the forward alone first."""
    engine = min(breakdown["engine"], breakdown["step"])
    if "http_and_queue" not in breakdown:
        return {"forward": engine, "everything else": breakdown["step"] - engine}
    http = breakdown["http_and_queue"]
    engine = min(engine, breakdown["step"] - http)
    return {
        "forward": engine,
        "the kept prompt found, the server's own work": breakdown["step"] - http - engine,
        "HTTP, JSON, queue": http,
    }


def _parts(step_ms: float, engine_ms: float) -> dict[str, float]:
    return {"step": step_ms, "engine": engine_ms, "inference_share": engine_ms / step_ms}


async def _small_steps(system: StdServing, item: WorkItem, last: int) -> list[ServerCall]:
    return [step async for step in system.steps(item) if step.visit.model == 0][-last:]


def _mean_step(steps: Sequence[ServerCall]) -> float:
    return statistics.fmean(1e3 * (step.ended - step.began) for step in steps)


async def _long_response_step(server: LlamaServer, prompt: Sequence[int]) -> float:
    connection = KeepAlive(server.port)
    try:
        ids = ",".join(map(str, prompt)).encode()
        reply = await connection.post(server.path, server.body(ids, _LONG_RUN, 0))
    finally:
        connection.close()
    return long_response_step(reply)


async def _long_sglang_step(server: SglangServer, item: WorkItem) -> float:
    connection = KeepAlive(server.port)
    prompt = ",".join(map(str, item.prompt_ids)).encode()
    run = min(_LONG_RUN, item.max_tokens - 1)  # as much as the context holds
    try:
        _, one, many = [
            _served_ms(await connection.post(server.path, server.body(prompt, count, 0)))
            for count in (1, 1, 1 + run)
        ]
    finally:
        connection.close()
    return (many - one) / run


def _served_ms(reply: bytes) -> float:
    return 1e3 * float(json.loads(reply)["meta_info"]["e2e_latency"])


async def _engine_ms(server: TrserveServer) -> tuple[float, int]:
    """Of the entry model so far: milliseconds in steps, and steps."""
    page = await server.metrics()
    name = re.escape(server.configuration["models"][0]["name"])
    total, count = (
        re.search(
            rf'^trserve_subserver_step_seconds_{end}{{subserver="{name}"}} (\S+)$',
            page,
            re.MULTILINE,
        )
        for end in ("sum", "count")
    )
    assert total is not None
    assert count is not None
    return 1e3 * float(total[1]), int(float(count[1]))


def _difference(before: tuple[float, int], after: tuple[float, int]) -> tuple[float, int]:
    return after[0] - before[0], after[1] - before[1]


def _mean_between(before: tuple[float, int], after: tuple[float, int]) -> float:
    total, count = _difference(before, after)
    return total / count
