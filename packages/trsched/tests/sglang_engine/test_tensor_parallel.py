"""Two ranks on gloo, given the same calls, compute what one does."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import socket
import warnings
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from packages.trsched.tests.sglang_engine.judges import TOLERANCE
from tests.support.sglang.tiny_models import Reference
from trsched.request import SamplingParams

GREEDY = SamplingParams(temperature=0.0)
DRAWN = SamplingParams(temperature=1.0, top_p=0.9, seed=11, logprobs=2)
PROMPTS = {"greedy": list(range(10, 40)), "drawn": list(range(50, 60))}


def rank(number: int, port: int, path: str, pipe: Connection) -> None:
    """One rank's process: run, park, append, resume, shorten, release; report every step."""
    from trsched.engines.sglang.engine import SglangEngine
    from trsched.engines.sglang.settings import SglangSettings

    settings = SglangSettings(
        path,
        sequences=4,
        context=100,
        kv_tokens=400,
        tp_size=2,
        tp_rank=number,
        gpu=number,
        dist_port=port,
        dtype="float32",
        server_args={"chunked_prefill_size": 16},
    )
    with warnings.catch_warnings(action="ignore"):
        engine = SglangEngine(
            "tiny",
            settings,
            "fp",
            index=0,
            needs=frozenset({"logits", "hidden_states", "token_embedding"}),
        )
    tokens: dict[int, list[int]] = {}
    steps: list[Any] = []

    def step(*seqs: int) -> None:
        result = engine.step(seqs)
        shown: Any = result.logits_output
        steps.append(
            {
                "tokens": [list(tokens[seq]) for seq in result.seqs],
                "sampled": result.sampled.tolist(),
                "logits": shown.next_token_logits.numpy().copy(),
                "hidden": shown.hidden_states.numpy().copy(),
                "embeddings": shown.token_embeddings.numpy().copy(),
            }
        )
        for seq, token in zip(result.seqs, result.sampled.tolist(), strict=True):
            append(seq, token)

    def append(seq: int, *token_ids: int) -> None:
        engine.append(seq, token_ids)
        tokens[seq] += token_ids

    seqs = {}
    for name, sampling in (("greedy", GREEDY), ("drawn", DRAWN)):
        seqs[name] = engine.start(PROMPTS[name], sampling)
        tokens[seqs[name]] = list(PROMPTS[name])
    greedy, drawn = seqs["greedy"], seqs["drawn"]
    for _ in range(5):
        step(greedy, drawn)
    for _ in range(2):
        step(drawn)
    append(greedy, 7, 8, 9)
    step(greedy, drawn)
    engine.truncate(greedy, 35)
    del tokens[greedy][35:]
    append(greedy, 5)
    step(greedy, drawn)
    engine.release(greedy)
    engine.release(drawn)
    pipe.send((engine.spec.kv_bytes_per_token, engine.capacity().tokens_used, steps))
    pipe.recv()  # no rank leaves before the other is done
    engine.close()


@pytest.mark.slow
def test_two_ranks_compute_what_one_does(pair: tuple[Path, Path], reference: Reference) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = multiprocessing.get_context("spawn")
    pipes = [context.Pipe() for _ in range(2)]
    ranks = [
        context.Process(target=rank, args=(number, port, str(pair[0]), pipes[number][1]))
        for number in range(2)
    ]
    for process in ranks:
        process.start()
    try:
        reports = []
        for (pipe, _), process in zip(pipes, ranks, strict=True):
            multiprocessing.connection.wait([pipe, process.sentinel])
            assert pipe.poll(), "a rank has died"
            reports.append(pipe.recv())
        for pipe, _ in pipes:
            pipe.send("done")
        for process in ranks:
            process.join(30)
            assert process.exitcode == 0
    finally:
        for process in ranks:
            process.kill()

    for kv_bytes, used, steps in reports:
        assert kv_bytes == 2 * 2 * 2 * 16 * 4
        assert used == 0
        assert len(steps) == 9
        for step in steps:
            for row, tokens in enumerate(step["tokens"]):
                wanted = reference(tokens)
                assert np.abs(step["logits"][row] - wanted.logits.numpy()).max() < TOLERANCE
                assert np.abs(step["hidden"][row] - wanted.hidden.numpy()).max() < TOLERANCE
                sampled = step["sampled"][row]
                assert np.array_equal(
                    step["embeddings"][row], reference.embeddings[sampled].numpy()
                )
                if tokens[0] == PROMPTS["greedy"][0]:
                    assert step["logits"][row].argmax() == sampled
    assert [step["sampled"] for step in reports[0][2]] == [
        step["sampled"] for step in reports[1][2]
    ]
