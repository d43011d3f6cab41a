"""Why a request is stopped before its end, and what follows from each reason."""

from __future__ import annotations

from typing import Literal

from trserve.gateway.request.attempted import RoundOutcome
from trserve.http.errors import ApiError

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


def stopped_outcome(why: StopReason, *, begun: bool) -> RoundOutcome:
    """What a stop makes of a round. begun: the client has got a part of the answer."""
    if begun or why not in MAY_GO_ON:
        return RoundOutcome.STOPPED
    return RoundOutcome.FAILED if why == "timeout" else RoundOutcome.WITHDRAWN
