"""How long a bare step of llama.cpp's prebuilt server takes against our engine's, same model.

The wheel's llama.cpp is built for any x86-64 with AVX2, ours for this machine. With the ratio a
report can give std-serving also as it would be on the same kernels.
"""

from __future__ import annotations

import asyncio
import json
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.load.keep_alive import KeepAlive
from benchmarks.systems.llama_server import LlamaServer, gguf_path, llama_server
from benchmarks.systems.llama_server_process import Settings
from trsched.engines.base import Engine
from trsched.engines.open_engine import open_engine
from trsched.plan.check import check_group
from trsched.plan.config import group_config
from trsched.request import SamplingParams

_CONTEXT = 512
_PROMPT_TOKENS = 16


def bare_steps(
    model: Mapping[str, Any],
    batches: Sequence[int] = (1, 4, 16),
    *,
    threads: int,
    tokens: int = 64,
    rounds: int = 3,
) -> dict[int, dict[str, float]]:
    """For each batch size the milliseconds of a decode step, `server` and `engine`, and `ratio`.

    model: as in a group's file. Rounds take turns; medians over rounds, and of their ratios.
    """
    group = {
        "name": "bare-step",
        "models": [{"engine": "llamacpp", "name": "model", **model, "threads": threads}],
        "router": {"name": "fixed"},
        "context": _CONTEXT,
        "max_active": max(batches),
    }
    engine = open_engine(check_group(group_config(group)), 0, lambda line: None)
    measured: dict[int, dict[str, float]] = {}
    for batch in batches:
        settings = Settings(gguf_path(model), batch, _CONTEXT, threads)
        with llama_server(settings) as server:
            pairs = [
                (
                    asyncio.run(_server_step(server, batch, tokens)),
                    _engine_step(engine, batch, tokens),
                )
                for _ in range(rounds)
            ]
        measured[batch] = {
            "server": statistics.median(theirs for theirs, _ in pairs),
            "engine": statistics.median(ours for _, ours in pairs),
            "ratio": statistics.median(theirs / ours for theirs, ours in pairs),
        }
    engine.close()
    return measured


def long_response_step(reply: bytes) -> float:
    """Milliseconds of a decode step by llama.cpp's server's own account of a response.

    The first token is made by the prompt's forward, and its time counted there.
    """
    timings = json.loads(reply)["timings"]
    step_ms: float = timings["predicted_ms"] / (timings["predicted_n"] - 1)
    return step_ms


async def _server_step(server: LlamaServer, batch: int, tokens: int) -> float:
    """By its own account, in responses of `tokens` tokens, `batch` at once."""

    async def one(slot: int) -> float:
        connection = KeepAlive(server.port)
        try:
            prompt = ",".join(map(str, _prompt(slot))).encode()
            reply = await connection.post(server.path, server.body(prompt, tokens, slot))
        finally:
            connection.close()
        return long_response_step(reply)

    return statistics.fmean(await asyncio.gather(*map(one, range(batch))))


def _engine_step(engine: Engine, batch: int, tokens: int) -> float:
    seqs = [engine.start(_prompt(i), SamplingParams(temperature=0.0)) for i in range(batch)]
    durations = []
    for _ in range(tokens):
        result = engine.step(seqs)
        for seq, token in zip(result.seqs, result.sampled.tolist(), strict=True):
            engine.append(seq, [token])
        if len(result.seqs) == batch:
            durations.append(1e3 * result.duration)
    for seq in seqs:
        engine.release(seq)
    return statistics.fmean(durations[1:])


def _prompt(number: int) -> list[int]:
    return [504 + number, *range(300, 300 + _PROMPT_TOKENS - 1)]
