"""A system that answers by a script, and an event loop whose time passes only while it sleeps."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from benchmarks.load.system import TimedResponse, WorkItem

T = TypeVar("T")


class _JumpingSelector(selectors.SelectSelector):
    """Instead of waiting, it puts the clock forward."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise RuntimeError("nothing will ever happen")
        self.now += max(timeout, 0.0)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now


def in_virtual_time(work: Callable[[Callable[[], float]], Coroutine[Any, Any, T]]) -> T:
    """Run `work(clock)` in an event loop where nothing but sleeping takes time."""
    loop = VirtualLoop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(work(loop.time))


class ScriptedSystem:
    """`first_s` to a request's first token and `step_s` to each further one.

    failing: numbers of requests that raise after their first token.
    """

    name = "scripted"

    def __init__(
        self,
        clock: Callable[[], float],
        *,
        first_s: float = 1.0,
        step_s: float = 0.5,
        failing: tuple[int, ...] = (),
    ) -> None:
        self.configuration: dict[str, Any] = {}
        self.in_flight = 0
        self.most_in_flight = 0
        self.began: list[int] = []
        self.ended: list[int] = []
        self._clock = clock
        self._first_s = first_s
        self._step_s = step_s
        self._failing = failing

    async def serve(self, item: WorkItem) -> TimedResponse:
        self.began.append(item.number)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        outcome = TimedResponse(self._clock())
        try:
            for position in range(item.max_tokens):
                await asyncio.sleep(self._step_s if position else self._first_s)
                if item.number in self._failing:
                    raise ConnectionError("the server went away")
                outcome.times.append(self._clock())
                outcome.tokens.append(position)
                outcome.models.append(position % 2)
        finally:
            self.in_flight -= 1
        self.ended.append(item.number)
        return outcome


def work(*lengths: int, first: int = 0) -> list[WorkItem]:
    """Requests with so many tokens each."""
    return [WorkItem(first + i, (1, 2, 3, 4), length, i) for i, length in enumerate(lengths)]
