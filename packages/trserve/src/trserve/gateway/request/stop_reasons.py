"""Why a request is stopped before its end, and what follows from each reason."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from trserve.gateway.request.attempted import Outcome
from trserve.http.errors import ApiError

if TYPE_CHECKING:
    from trserve.gateway.request.interruptible_task import InterruptibleTask

StopReason = Literal[
    "client left",
    "client stalled",
    "instance removed",
    "instance down",
    "timeout",
    "deadline",
    "shutdown",
]

MAY_GO_ON: tuple[StopReason, ...] = ("instance removed", "instance down", "timeout")
"""After these a request may be tried elsewhere."""

CLIENT_GONE: tuple[StopReason, ...] = ("client left", "client stalled")
"""After these nobody is there to be told."""


def stopped_error(why: StopReason, instance: str | None) -> ApiError:
    """What the client is told."""
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


def stopped_outcome(why: StopReason, *, begun: bool) -> Outcome:
    """What a stop makes of a round. begun: the client has got a part of the answer."""
    if begun or why not in MAY_GO_ON:
        return Outcome.STOPPED
    return Outcome.FAILED if why == "timeout" else Outcome.WITHDRAWN


def instance_too_slow(task: InterruptibleTask, now: float) -> bool:
    """Whether it tells against the instance that its request was stopped.

    Not where it is no stream, which may just be long; nor at its deadline, unless the instance
    had half of the time and has not begun.
    """
    if not task.stream or task.stopped != "deadline":
        return task.stream and task.stopped == "timeout"
    waited = now - task.touched
    return task.phase == "first byte" and waited > (task.deadline - task.started) / 2
