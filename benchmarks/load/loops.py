"""Load on a system: clients that wait for their responses (closed), or arrivals that don't (open).

In a closed loop each of c clients starts its next request when its last one ends. At the end
clients run out one by one and fewer and fewer requests are in flight: this *drain* is part of the
run, but says little about concurrency c. So a run also has a *steady window*: from when every
client has had its first response (warm-up) until the first one finds nothing left to do.

In an open loop requests arrive when they are scheduled, whatever the system does meanwhile.
Latencies count from the schedule, so that a system that holds up its own load gains nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.load.load_progress import LoadProgress
from benchmarks.load.system import System, TimedResponse, WorkItem

Clock = Callable[[], float]


class LoadError(Exception):
    """A system failed to serve a request; names both."""


@dataclass(frozen=True, slots=True)
class ServedItem:
    """A request that ended.

    scheduled: when it should have begun, by the load's clock.
    """

    item: WorkItem
    scheduled: float
    outcome: TimedResponse


@dataclass(slots=True)
class LoadResult:
    """What one load saw. Times in seconds of the load's clock, which outcomes must use too.

    clients: 0 for an open loop, whose mean rate is `rate` requests a second.
    steady: the steady window of a closed loop; none where there was no such time.
    unbegun, abandoned: requests that the time limit kept from beginning, or cut off.
    """

    clients: int
    rate: float
    began: float
    ended: float = 0.0
    served: list[ServedItem] = field(default_factory=list)
    steady: tuple[float, float] | None = None
    unbegun: int = 0
    abandoned: int = 0


async def closed_loop(
    system: System,
    items: Sequence[WorkItem],
    clients: int,
    *,
    warm_up: Sequence[WorkItem] = (),
    limit_s: float = 600.0,
    label: str = "",
    clock: Clock = time.perf_counter,
) -> LoadResult:
    """Serve `items` in order, `clients` of them at once.

    warm_up: served first, as many at once, and forgotten; of another seed than `items`.
    limit_s: after it no request is begun; those in flight may take as long again.
    label: of progress on standard error; without one there is none.

    Raises LoadError at the first request that fails.
    """
    if warm_up:
        await closed_loop(system, warm_up, clients, limit_s=limit_s, clock=clock)
    run = LoadResult(clients, 0.0, clock())
    progress = LoadProgress(label, len(items), clock)
    left = iter(items)
    first_ended: list[float] = []
    ran_out: list[float] = []

    async def client() -> None:
        served = 0
        while clock() - run.began < limit_s and (item := next(left, None)) is not None:
            await _serve(system, item, clock(), run, progress)
            served += 1
            if served == 1:
                first_ended.append(clock())
        ran_out.append(clock())

    await _within(2 * limit_s, [client() for _ in range(clients)])
    run.ended = clock()
    run.unbegun = sum(1 for _ in left)
    run.abandoned = len(items) - len(run.served) - run.unbegun
    if len(first_ended) == clients:
        window = max(first_ended), min(ran_out)
        run.steady = window if window[0] < window[1] else None
    return run


async def open_loop(
    system: System,
    items: Sequence[WorkItem],
    arrivals: Sequence[float],
    *,
    warm_up: Sequence[WorkItem] = (),
    limit_s: float = 600.0,
    label: str = "",
    clock: Clock = time.perf_counter,
) -> LoadResult:
    """Serve each of `items` from its own of `arrivals` on: seconds from the start, ascending.

    warm_up: served first, one after another, and forgotten.

    The rest as for `closed_loop`.
    """
    if len(items) != len(arrivals) or list(arrivals) != sorted(arrivals):
        raise ValueError("each item needs an arrival, and arrivals ascend")
    if warm_up:
        await closed_loop(system, warm_up, 1, limit_s=limit_s, clock=clock)
    run = LoadResult(0, len(items) / arrivals[-1] if items and arrivals[-1] else 0.0, clock())
    progress = LoadProgress(label, len(items), clock)
    due = [(item, at) for item, at in zip(items, arrivals, strict=True) if at < limit_s]

    async def one(item: WorkItem, at: float) -> None:
        await asyncio.sleep(run.began + at - clock())
        await _serve(system, item, run.began + at, run, progress)

    await _within(2 * limit_s, [one(item, at) for item, at in due])
    run.ended = clock()
    run.unbegun = len(items) - len(due)
    run.abandoned = len(due) - len(run.served)
    return run


async def _serve(
    system: System, item: WorkItem, scheduled: float, run: LoadResult, progress: LoadProgress
) -> None:
    try:
        outcome = await system.serve(item)
    except Exception as error:
        raise LoadError(f"{system.name}, request {item.number}: {error!r}") from error
    if not outcome.times:
        raise LoadError(f"{system.name}, request {item.number}: no token came")
    run.served.append(ServedItem(item, scheduled, outcome))
    progress.served(len(outcome.times))


async def _within(seconds: float, work: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Run all of `work` at once until it is done, fails (raises the failure) or time is up."""
    tasks = [asyncio.create_task(each) for each in work]
    if not tasks:
        return
    try:
        done, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
