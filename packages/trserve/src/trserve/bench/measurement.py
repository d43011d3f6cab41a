"""A measurement from its first connection to its last response, or to Ctrl-C."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import time
from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass
from typing import Any

import uvloop

from trserve.bench.client.http_client import HttpClient
from trserve.bench.live_view import live_view
from trserve.bench.load_run import LoadRun
from trserve.bench.loop_lag import LoopLag
from trserve.bench.open_files import allow_many_files
from trserve.bench.plan.load_plan import ClosedLoad, OpenLoad
from trserve.bench.plan.request_plan import RequestPlan
from trserve.bench.results.summary import Observed
from trserve.http.stop_signals import StopSignals

_WARM_UP_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class BenchPlan:
    """What to do.

    url: scheme and host, maybe a path.
    load: when requests are sent.
    requests: what they say.
    warm_up: requests that are sent before the load, and forgotten.
    """

    url: str
    load: OpenLoad | ClosedLoad
    requests: RequestPlan
    warm_up: int

    @property
    def planned(self) -> int | None:
        """Requests; None where only time ends the load."""
        load = self.load
        return load.requests if isinstance(load, ClosedLoad) else len(load.at)

    @property
    def offered_rate(self) -> float | None:
        """Requests a second; None where they follow responses, or come all at once."""
        return self.load.rate if isinstance(self.load, OpenLoad) else None


@dataclass(frozen=True, slots=True)
class BenchResult:
    """What came of it.

    model: the one that was asked.
    observed: what the load saw, until it was stopped where it was.
    stopped: by Ctrl-C or SIGTERM.
    """

    model: str
    observed: Observed
    stopped: bool


def measure(plan: BenchPlan, *, redraw_s: float = 0.5) -> BenchResult:
    """Run it in an event loop of its own. Raises ServerError if the model is not to be found.

    redraw_s: seconds after which the progress is drawn anew.
    """
    allow_many_files()
    gc.freeze()  # what is there stays: looking through it again would stop the loop for 10 ms
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_Measuring(plan, redraw_s).until_stopped())


class _Measuring:
    def __init__(self, plan: BenchPlan, redraw_s: float) -> None:
        self._plan = plan
        self._redraw_s = redraw_s
        self._model = plan.requests.form.model
        self._run: LoadRun | None = None
        self._lag = LoopLag()
        self._seconds = 0.0
        self._cpu_seconds = 0.0

    async def until_stopped(self) -> BenchResult:
        with StopSignals() as signals:
            work = asyncio.create_task(self._work())
            stop = asyncio.create_task(signals.first.wait())
            await asyncio.wait({work, stop}, return_when=asyncio.FIRST_COMPLETED)
            stopped = not work.done()
            work.cancel()
            stop.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await work
        return BenchResult(self._model, self._observed(), stopped)

    async def _work(self) -> None:
        plan = self._plan
        form = plan.requests.form
        async with HttpClient(
            plan.url,
            form.endpoint,
            plan.requests.headers,
            stream=form.stream,
            timeout=plan.requests.timeout,
        ) as client:
            self._model = self._model or await client.first_model()
            requests = plan.requests.named(self._model)
            if plan.warm_up:
                warm_up = LoadRun(client.serve, requests.warm_up_bodies())
                await warm_up.closed_loop(min(plan.warm_up, _WARM_UP_AT_ONCE), plan.warm_up)
            self._run = LoadRun(client.serve, requests.bodies())
            await self._load(self._run)

    async def _load(self, run: LoadRun) -> None:
        load, before = self._plan.load, time.process_time()
        with live_view(self._plan.planned, self._redraw_s) as view:
            async with _beside(self._lag.watch()), _beside(view.watch(run)):
                try:
                    if isinstance(load, ClosedLoad):
                        await run.closed_loop(load.clients, load.requests, load.seconds)
                    else:
                        await run.open_loop(load.at.tolist(), load.max_in_flight)
                finally:
                    self._seconds = run.seconds
                    self._cpu_seconds = time.process_time() - before

    def _observed(self) -> Observed:
        load, run = self._plan.load, self._run
        return Observed(
            records=[] if run is None else run.records,
            planned=self._plan.planned,
            begun=0 if run is None else run.begun,
            sent=0 if run is None else run.sent,
            peak_in_flight=0 if run is None else run.peak_in_flight,
            seconds=self._seconds,
            cpu_seconds=self._cpu_seconds,
            late=self._lag.late,
            open_loop=isinstance(load, OpenLoad),
            held_back=isinstance(load, OpenLoad) and load.max_in_flight is not None,
        )


@contextlib.asynccontextmanager
async def _beside(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Runs `work` while the block does."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
