"""One client's request on its way: where it is, since when, and how it can be stopped."""

from __future__ import annotations

import asyncio
from typing import Literal

from trserve.http.errors import ApiError

Phase = Literal["waiting", "first byte", "streaming", "client"]
Stop = Literal[
    "client left",
    "client stalled",
    "instance removed",
    "instance down",
    "timeout",
    "deadline",
    "shutdown",
]
_GOES_ON = ("instance removed", "instance down", "timeout")
"""After these a request may be tried elsewhere."""


class Flight:
    """The task that serves one request may be stopped from outside, with a reason.

    phase: what it waits for, since `touched` (the event loop's time): a decision or its turn, an
    instance's first byte or next one, the client to read on. stream: the answer is to come in
    pieces; else its first byte is about its last. deadline: when it must be over.
    """

    __slots__ = (
        "_interrupts",
        "_over",
        "_task",
        "deadline",
        "phase",
        "request_id",
        "started",
        "stopped",
        "stream",
        "touched",
    )

    def __init__(self, request_id: str, now: float, deadline: float, *, stream: bool) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._over = False
        self._interrupts = 0  # that have been asked for and not arrived
        self.request_id = request_id
        self.started = self.touched = now
        self.deadline = deadline
        self.stream = stream
        self.phase: Phase = "waiting"
        self.stopped: Stop | None = None

    def enter(self, phase: Phase, now: float) -> None:
        """Wait for something else from now on."""
        self.phase = phase
        self.touched = now

    def stop(self, why: Stop) -> None:
        """Interrupt what it is doing; of two reasons the one that ends it stands."""
        if self._over:
            return
        if self.stopped is None:
            self.stopped = why
            self._interrupts += 1
            self._task.cancel()
        elif self.stopped in _GOES_ON and why not in _GOES_ON:
            self.stopped = why  # before the task has heard of the first

    def interrupted(self) -> Stop | None:
        """For the task itself, on CancelledError: why; None if somebody else cancelled it.

        A request whose instance was removed or was too slow may then go on elsewhere.
        """
        why = self.stopped
        if why is None:
            return None
        self._interrupts = 0
        self._task.uncancel()
        if why in _GOES_ON:
            self.stopped = None
        return why

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


def stopped_error(why: Stop, instance: str | None) -> ApiError:
    """What the client is told of a request that was stopped."""
    where = f" on instance {instance}" if instance else ""
    match why:
        case "timeout":
            return ApiError(504, f"No answer in time{where}.", code="upstream_timeout")
        case "deadline":
            return ApiError(504, "The answer was not complete in time.", code="timeout")
        case "instance removed":
            return ApiError(502, f"The instance was removed{where}.", code="instance_removed")
    headers = {"retry-after": "5"}
    message = "The gateway is shutting down; try again later."
    return ApiError(503, message, code="shutdown", headers=headers)
