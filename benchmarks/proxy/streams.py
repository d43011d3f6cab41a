"""Many streams at once, and how their tokens come through."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.proxy.connection import Connection, Reply


@dataclass(frozen=True, slots=True)
class Flow:
    """What came in a window of `seconds` with `count` streams held.

    events: server-sent events. gaps: seconds between those of one stream, and how long a stream
    that did not go on had been waiting at the end. first: seconds from requests to their first
    event. failures: by what was wrong.
    """

    count: int
    seconds: float
    events: int
    gaps: NDArray[np.float64]
    first: NDArray[np.float64]
    failures: dict[str, int]


async def hold_streams(
    port: int, requests: Iterator[bytes], count: int, *, ramp_s: float, seconds: float
) -> Flow:
    """Hold `count` streams: one that ends is followed by another at once.

    They begin one after another within ramp_s; the window begins as long again after that.
    """
    replies: list[Reply] = []
    failures: dict[str, int] = {}
    done = False

    def begin(connection: Connection) -> None:
        if not done:
            connection.send(next(requests))

    def ended(connection: Connection, reply: Reply) -> None:
        if reply.failure:
            failures[reply.failure] = failures.get(reply.failure, 0) + 1
        else:
            replies.append(reply)
            begin(connection)

    loop = asyncio.get_running_loop()
    connections = [Connection(port, ended, streams=True) for _ in range(count)]
    for at, connection in enumerate(connections):
        loop.call_later(ramp_s * at / count, begin, connection)
    await asyncio.sleep(2 * ramp_s)
    opened = time.perf_counter()
    await asyncio.sleep(seconds)
    closed, done = time.perf_counter(), True
    unfinished = [reply for connection in connections if (reply := connection.reply) is not None]
    for connection in connections:
        connection.close()
    return _flow(count, opened, closed, replies, unfinished, failures)


def _flow(
    count: int,
    opened: float,
    closed: float,
    replies: list[Reply],
    unfinished: list[Reply],
    failures: dict[str, int],
) -> Flow:
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
    return Flow(
        count, closed - opened, events, np.concatenate([every, late]), np.array(first), failures
    )
