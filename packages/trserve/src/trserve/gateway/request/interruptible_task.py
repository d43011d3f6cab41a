"""The task that serves one request: what it waits for, since when, and how it can be stopped."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Literal

from trserve.gateway.request.stop_reasons import MAY_GO_ON

if TYPE_CHECKING:
    from trserve.gateway.request.stop_reasons import StopReason

Phase = Literal["waiting", "first byte", "streaming", "client"]


class InterruptibleTask:
    """The current task, which may be stopped from outside, with a reason.

    Times are the event loop's, in seconds.

    phase: what it waits for: a decision or its turn, an instance's first byte or next one, the
        client to read on.
    touched: since when.
    started: when the request began to come.
    deadline: when it must be over.
    stream: the answer is to come in pieces; else its first byte is about its last.
    stopped: why it was stopped; None: it was not, or went on elsewhere.
    """

    __slots__ = (
        "_interrupts",
        "_over",
        "_task",
        "deadline",
        "phase",
        "started",
        "stopped",
        "stream",
        "touched",
    )

    def __init__(self, now: float, deadline: float, *, stream: bool) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._over = False
        self._interrupts = 0  # that have been asked for and not arrived
        self.started = self.touched = now
        self.deadline = deadline
        self.stream = stream
        self.phase: Phase = "waiting"
        self.stopped: StopReason | None = None

    def enter(self, phase: Phase, now: float) -> None:
        """Wait for something else from now on."""
        self.phase = phase
        self.touched = now

    def stop(self, why: StopReason) -> None:
        """Interrupt what it is doing; of two reasons the one that ends it stands."""
        if self._over:
            return
        if self.stopped is None:
            self.stopped = why
            self._interrupts += 1
            self._task.cancel()
        elif self.stopped in MAY_GO_ON and why not in MAY_GO_ON:
            self.stopped = why  # before the task has heard of the first

    def interrupted(self) -> StopReason | None:
        """For the task itself, on CancelledError: why; None if somebody else cancelled it.

        A request whose instance was removed or was too slow may then go on elsewhere.
        """
        why = self.stopped
        if why is None:
            return None
        self._interrupts = 0
        self._task.uncancel()
        if why in MAY_GO_ON:
            self.stopped = None
        return why

    def instance_too_slow(self, now: float) -> bool:
        """Whether it tells against the instance that it was stopped.

        Not where it is no stream, which may just be long; nor at its deadline, unless the instance
        had half of the time and has not begun.
        """
        if not self.stream or self.stopped != "deadline":
            return self.stream and self.stopped == "timeout"
        half = (self.deadline - self.started) / 2
        return self.phase == "first byte" and now - self.touched > half

    def over(self) -> None:
        """The client has all that it will get: nothing interrupts what is left to do."""
        self._over = True

    async def settle(self) -> None:
        """At the end, for the task itself: an interrupt that came too late hits nothing else."""
        self.over()
        if self._interrupts:
            try:
                await asyncio.sleep(0)
            except asyncio.CancelledError:
                self._task.uncancel()
