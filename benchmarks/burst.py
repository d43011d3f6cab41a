"""Whether a burst herds: 800 requests at once on eight small servers, through one proxy.

The servers are real (`trserve launch` on the profile engine, a process each): sixteen requests run
at once, each with a token at every step, the others wait in the server. Requests are streamed chats
of 16 to 48 tokens, all sent at the same time. Ours has the policies route-balance, round-robin and
shortest-queue; LiteLLM simple-shuffle and least-busy; the Rust routers, power of two. First all
servers are equally fast; then, in the figures with `_mixed`, four take three times as long for a
step as the others.

- imbalance_max_mean: the fullest server's requests (running and waiting, by its own /metrics)
  through the mean of all, when most are in flight, which is when the burst has been dealt out;
  imbalance_worst: the largest such figure from then on until half are done.
- lost: requests without exactly one complete answer, of the tokens that were asked for.
- p50_s, p99_s: from the burst to the end of a response; ttft_p50_s, ttft_p99_s: to its first event;
  makespan_s: to the last.

Without an ending figures are route-balance's. Run ``python -m benchmarks.burst`` or with
``--smoke``. Ends with one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import uvloop

from benchmarks.proxy.own_gateway import instances, own_gateway
from benchmarks.proxy.peers import PEERS
from benchmarks.proxy.prompts import requests
from benchmarks.proxy.proxy_client import ProxyClient, ProxyReply
from benchmarks.proxy.proxy_process import Proxy, StartError
from benchmarks.proxy.small_instances import MODEL, ServerLoad, SmallInstances, small_instances
from benchmarks.report.machine import machine

PEER_POLICIES = {
    "litellm": ("litellm", False),
    "litellm-least-busy": ("litellm", True),
    "vllm-router": ("vllm-router", True),
    "sglang-router": ("sglang-router", True),
}
OURS = ("route-balance", "round-robin", "shortest-queue")
AT_ONCE = 16
STEP_MS = 50.0
EQUAL = [STEP_MS] * 8
MIXED = [STEP_MS / 2, STEP_MS * 3 / 2] * 4
TOKENS = (16, 48)
SAMPLE_EVERY_S = 0.25
LIMIT_S = 180.0
FIGURES = (
    "imbalance_max_mean",
    "imbalance_worst",
    "lost",
    "p50_s",
    "p99_s",
    "ttft_p50_s",
    "ttft_p99_s",
    "makespan_s",
)
_COMPLETION_TOKENS = re.compile(rb'"completion_tokens": ?(\d+)')


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--smoke", action="store_true", help="160 requests, equal servers, no peers"
    )
    parser.add_argument("--requests", type=int, help="in the burst (default: 800)")
    parser.add_argument("--peers", default=",".join(PEERS), help="which, or none")
    args = parser.parse_args()
    count = args.requests or (160 if args.smoke else 800)
    peers = [] if args.smoke or args.peers == "none" else args.peers.split(",")
    rows = [*OURS, *(row for row, (peer, _) in PEER_POLICIES.items() if peer in peers)]
    facts = {"requests": count, "at_once": AT_ONCE, "tokens": TOKENS, "step_ms": STEP_MS}
    print(json.dumps({"machine": machine(), **facts}))
    print(f"{'':22}" + "".join(f"{name:>20}" for name in FIGURES))
    line: dict[str, float] = {}
    for end, steps_ms in (("", EQUAL), ("_mixed", MIXED)):
        if end and args.smoke:
            break
        with small_instances(steps_ms, AT_ONCE) as servers:
            for name in rows:
                try:
                    with proxy(name, servers, steps_ms) as one:
                        found = uvloop.run(burst(one, servers, count))
                except StartError as error:
                    print(f"{name + end:22}not measured: {error}")
                    continue
                print(f"{name + end:22}" + "".join(f"{found[key]:20.3f}" for key in FIGURES))
                own = "" if name == OURS[0] else "_" + name.replace("-", "_")
                line |= {f"{key}{own}{end}": round(found[key], 4) for key in FIGURES}
    print(json.dumps({"benchmark": "burst", "cores": machine()["cores"], **facts, **line}))


def proxy(
    name: str, servers: SmallInstances, steps_ms: Sequence[float]
) -> AbstractContextManager[Proxy]:
    """One of OURS or a peer, before these servers."""
    if name in PEER_POLICIES:
        peer, by_load = PEER_POLICIES[name]
        return PEERS[peer](servers.urls, MODEL, by_load)
    models: list[dict[str, Any]] = [
        {
            "name": f"{step_ms:g}ms",
            "length": sum(TOKENS) / 2,
            "price_in": 0.06,
            "price_out": 0.06,
            "tpot_s": step_ms / 1e3,
            "slots": AT_ONCE,
        }
        for step_ms in sorted(set(steps_ms))
    ]
    of_each = [f"{step_ms:g}ms" for step_ms in steps_ms]
    config = {
        "policy": name,
        "models": models,
        "instances": instances(servers.urls, of_each, MODEL),
    }
    return own_gateway(name, config)


async def burst(one: Proxy, servers: SmallInstances, count: int) -> dict[str, float]:
    """`count` requests at once; FIGURES of it."""
    print(f"{one.name}: {count} requests at once", file=sys.stderr, flush=True)
    before = await servers.loads()
    draw = random.Random(0)
    lengths = [draw.randint(*TOKENS) for _ in range(count)]
    answers: dict[ProxyClient, ProxyReply] = {}
    all_there = asyncio.Event()

    def ended(connection: ProxyClient, reply: ProxyReply) -> None:
        answers[connection] = reply
        if len(answers) == count:
            all_there.set()

    connections = [ProxyClient(one.port, ended, streams=True) for _ in lengths]
    began = time.perf_counter()
    for connection, request in zip(connections, _asked(one.model, lengths), strict=True):
        connection.send(request, began)
    samples: list[list[ServerLoad]] = []
    while not all_there.is_set() and time.perf_counter() - began < LIMIT_S:
        samples.append(await servers.loads())
        await asyncio.wait([asyncio.ensure_future(all_there.wait())], timeout=SAMPLE_EVERY_S)
    after = await servers.loads()
    for connection in connections:
        connection.close()
    late = ProxyReply(began, failure=f"no answer within {LIMIT_S:g} s")
    replies = [answers.get(connection, late) for connection in connections]
    complete = sum(map(is_complete, replies, lengths))
    failures = Counter(reply.failure for reply in replies if reply.failure)
    if failures:
        print(f"{one.name}: {dict(failures)}", file=sys.stderr, flush=True)
    if not complete:
        raise StartError(f"none of {count} requests was answered: {dict(failures)}")
    finished = sum(load.finished for load in after) - sum(load.finished for load in before)
    return {
        "lost": count - complete + abs(finished - count),
        **imbalance(samples),
        **times(replies, began),
    }


def _asked(model: str, lengths: Sequence[int]) -> Iterator[bytes]:
    for length in lengths:
        yield next(requests(model, length, stream=True, usage=True))


def is_complete(reply: ProxyReply, tokens: int) -> bool:
    """Whether a stream came to its end, with as many tokens as were asked for."""
    counted = _COMPLETION_TOKENS.findall(reply.tail)
    return not reply.failure and bool(counted) and int(counted[-1]) == tokens


def imbalance(samples: Sequence[Sequence[ServerLoad]]) -> dict[str, float]:
    """The fullest through the mean; see the module."""
    totals = [sum(load.in_flight for load in sample) for sample in samples]
    peak = max(range(len(totals)), key=totals.__getitem__)
    ratios = [
        max(load.in_flight for load in sample) * len(sample) / total
        for sample, total in zip(samples[peak:], totals[peak:], strict=True)
        if total >= totals[peak] / 2 and total
    ]
    return {"imbalance_max_mean": ratios[0], "imbalance_worst": max(ratios)}


def times(replies: Sequence[ProxyReply], began: float) -> dict[str, float]:
    """Seconds from the burst, of those that were answered."""
    answered = [reply for reply in replies if not reply.failure]
    ends = [reply.ended - began for reply in answered]
    firsts = [reply.times[0] - began for reply in answered]
    (p50, p99), (ttft_p50, ttft_p99) = (np.quantile(each, [0.5, 0.99]) for each in (ends, firsts))
    return {
        "p50_s": float(p50),
        "p99_s": float(p99),
        "ttft_p50_s": float(ttft_p50),
        "ttft_p99_s": float(ttft_p99),
        "makespan_s": max(ends),
    }


if __name__ == "__main__":
    main()
