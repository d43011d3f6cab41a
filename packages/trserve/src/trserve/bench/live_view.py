"""A load's progress on standard error, where that is a terminal."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from trserve.bench.load_run import LoadRun


@dataclass(frozen=True, slots=True)
class LiveView:
    """Drawn by the event loop: a thread of its own would hold up the loop at any time."""

    _bars: Progress
    _bar: TaskID
    _every_s: float

    async def watch(self, run: LoadRun) -> None:
        """Draw until cancelled."""
        if self._bars.disable:
            return
        ended_before, before = 0, run.seconds
        while True:
            await asyncio.sleep(self._every_s)
            ended, now = len(run.records), run.seconds
            self._bars.update(
                self._bar,
                completed=ended,
                rate=(ended - ended_before) / (now - before),
                in_flight=run.in_flight,
                failed=run.failed,
            )
            self._bars.refresh()
            ended_before, before = ended, now


@contextmanager
def live_view(planned: int | None, every_s: float) -> Iterator[LiveView]:
    """What was drawn is gone afterwards.

    planned: requests, None if only time ends the load.
    every_s: seconds after which it is drawn anew.
    """
    console = Console(stderr=True, highlight=False, markup=False)
    columns = (
        BarColumn(),
        TextColumn("{task.completed} of {task.total}" if planned else "{task.completed}"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[rate]:.1f} requests/s"),
        TextColumn("{task.fields[in_flight]} in flight"),
        TextColumn("{task.fields[failed]} failed"),
    )
    with Progress(
        *columns,
        console=console,
        disable=not console.is_terminal,
        transient=True,
        auto_refresh=False,
        redirect_stdout=False,
        redirect_stderr=False,
    ) as bars:
        bar = bars.add_task("", total=planned, rate=0.0, in_flight=0, failed=0)
        yield LiveView(bars, bar, every_s)
