"""What is asked of a proxy, and what its clients see. Each function takes one event loop's time."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from benchmarks.proxy.proxy_client import ProxyClient, ProxyReply


@dataclass(slots=True)
class RepliesSeen:
    """Replies that ended within a window of `seconds`; failures by what was wrong.

    cpu_s: what the proxy spent meanwhile, where that was asked for.
    """

    seconds: float
    cpu_s: float = 0.0
    replies: list[ProxyReply] = field(default_factory=list)
    failures: dict[str, int] = field(default_factory=dict)

    def add(self, reply: ProxyReply) -> None:
        if reply.failure:
            self.failures[reply.failure] = self.failures.get(reply.failure, 0) + 1
        else:
            self.replies.append(reply)

    @property
    def rate(self) -> float:
        """Replies a second."""
        return len(self.replies) / self.seconds

    def latencies(self) -> NDArray[np.float64]:
        """Seconds from each request to the end of its reply."""
        return np.array([reply.ended - reply.began for reply in self.replies])


async def in_turns(
    ports: Sequence[int], requests: Sequence[Iterator[bytes]], rounds: int, at_a_time: int
) -> list[RepliesSeen]:
    """One request after another, so many to each port in turn, in another order each round."""
    loop = asyncio.get_running_loop()
    answered: asyncio.Future[ProxyReply] = loop.create_future()
    connections = [ProxyClient(port, lambda _, reply: answered.set_result(reply)) for port in ports]
    seen = [RepliesSeen(0.0) for _ in ports]
    draw = random.Random(0)
    for turn in range(1 + rounds):  # the first warms up
        for at in draw.sample(range(len(ports)), len(ports)):
            for _ in range(at_a_time):
                answered = loop.create_future()
                connections[at].send(next(requests[at]))
                reply = await answered
                if turn:
                    seen[at].add(reply)
                    seen[at].seconds += reply.ended - reply.began
    for connection in connections:
        connection.close()
    return seen


async def open_loop(
    port: int, requests: Iterator[bytes], rate: float, seconds: float
) -> RepliesSeen:
    """Poisson arrivals, whatever the proxy does meanwhile; latencies count from the schedule."""
    seen = RepliesSeen(seconds)
    idle: list[ProxyClient] = []
    everyone: list[ProxyClient] = []
    answered = asyncio.Event()

    def ended(connection: ProxyClient, reply: ProxyReply) -> None:
        seen.add(reply)
        idle.append(connection)
        answered.set()

    draw = random.Random(1)
    began = time.perf_counter()
    due, sent = draw.expovariate(rate), 0
    while due < seconds:
        await asyncio.sleep(max(0.0, began + due - time.perf_counter()))
        if not idle:
            everyone.append(ProxyClient(port, ended))
            idle.append(everyone[-1])
        idle.pop().send(next(requests), began + due)
        sent += 1
        due += draw.expovariate(rate)
    while len(seen.replies) + sum(seen.failures.values()) < sent:
        answered.clear()
        await answered.wait()
    for connection in everyone:
        connection.close()
    return seen


async def closed_loop(
    port: int,
    requests: Iterator[bytes],
    clients: int,
    seconds: float,
    *,
    warm_up: float = 0.5,
    cpu: Callable[[], float] = lambda: 0.0,
) -> RepliesSeen:
    """Clients that ask again as soon as they are answered; what ends after warm_up counts.

    cpu: seconds that the proxy has spent so far. Where fewer have ended than there are clients it
        goes on, up to ten times as long.
    """
    seen = RepliesSeen(seconds)
    counts = False
    enough = asyncio.Event()

    def ended(connection: ProxyClient, reply: ProxyReply) -> None:
        if counts:
            seen.add(reply)
            if len(seen.replies) >= clients:
                enough.set()
        if not reply.failure:
            connection.send(next(requests))

    connections = [ProxyClient(port, ended) for _ in range(clients)]
    for connection in connections:
        connection.send(next(requests))
    await asyncio.sleep(warm_up)
    counts, began, spent = True, time.perf_counter(), cpu()
    await asyncio.sleep(seconds)
    with suppress(TimeoutError):
        await asyncio.wait_for(enough.wait(), 10 * seconds)
    counts, seen.seconds, seen.cpu_s = False, time.perf_counter() - began, cpu() - spent
    for connection in connections:
        connection.close()
    return seen
