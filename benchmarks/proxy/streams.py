"""Many streams at once, and how their tokens come through."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.proxy.proxy_client import ProxyClient, ProxyReply

_SETTLE_S = 0.5


@dataclass(frozen=True, slots=True)
class Flow:
    """What came in a window of `seconds` with `count` streams held.

    events: server-sent events.
    gaps: seconds between those of one stream, and how long a stream that did not go on had been
        waiting at the end.
    first: seconds from requests to their first event.
    failures: by what was wrong.
    cpu_s: what the proxy spent meanwhile.
    """

    count: int
    seconds: float
    events: int
    gaps: NDArray[np.float64]
    first: NDArray[np.float64]
    failures: dict[str, int]
    cpu_s: float

    def quantile_s(self, q: float) -> float:
        """Of the gaps; infinite where nothing came."""
        return float(np.quantile(self.gaps, q)) if len(self.gaps) else math.inf

    @property
    def first_s(self) -> float:
        """The median; infinite where no stream began."""
        return float(np.median(self.first)) if len(self.first) else math.inf


async def hold_streams(
    port: int,
    requests: Iterator[bytes],
    count: int,
    *,
    ramp_s: float,
    seconds: float,
    cpu: Callable[[], float] = lambda: 0.0,
) -> Flow:
    """Hold `count` streams: one that ends is followed by another at once.

    They begin one after another within ramp_s; the window begins half a second after that.

    cpu: seconds that the proxy has spent so far.
    """
    replies: list[ProxyReply] = []
    failures: dict[str, int] = {}
    done = False

    def begin(connection: ProxyClient) -> None:
        if not done:
            connection.send(next(requests))

    def ended(connection: ProxyClient, reply: ProxyReply) -> None:
        if reply.failure:
            failures[reply.failure] = failures.get(reply.failure, 0) + 1
        else:
            replies.append(reply)
            begin(connection)

    loop = asyncio.get_running_loop()
    connections = [ProxyClient(port, ended, streams=True) for _ in range(count)]
    for at, connection in enumerate(connections):
        loop.call_later(ramp_s * at / count, begin, connection)
    await asyncio.sleep(ramp_s + _SETTLE_S)
    opened, spent = time.perf_counter(), cpu()
    await asyncio.sleep(seconds)
    closed, spent, done = time.perf_counter(), cpu() - spent, True
    unfinished = [reply for connection in connections if (reply := connection.reply) is not None]
    for connection in connections:
        connection.close()
    events, gaps, first = _within(opened, closed, replies, unfinished)
    return Flow(count, closed - opened, events, gaps, first, failures, spent)


def _within(
    opened: float, closed: float, replies: list[ProxyReply], unfinished: list[ProxyReply]
) -> tuple[int, NDArray[np.float64], NDArray[np.float64]]:
    """Events, gaps and times to the first event, between two times."""
    events, gaps, first = 0, [np.empty(0)], []
    for reply in replies + unfinished:
        times = np.asarray(reply.times)
        inside = (times > opened) & (times <= closed)
        events += int(inside.sum())
        gaps.append(np.diff(times)[inside[1:]])
        if reply.began > opened:
            first.append((times[0] if len(times) else closed) - reply.began)
    waiting = [closed - (reply.times[-1] if reply.times else reply.began) for reply in unfinished]
    every = np.concatenate(gaps)
    usual = np.median(every) if len(every) else 0.0
    late = np.array([wait for wait in waiting if wait > usual])
    return events, np.concatenate([every, late]), np.array(first)
