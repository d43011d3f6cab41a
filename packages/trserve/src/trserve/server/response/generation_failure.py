"""Which HTTP error a choice has that did not end well."""

from __future__ import annotations

from trsched.request import FinalEvent
from trserve.http.errors import ApiError


def generation_failure(final: FinalEvent, timeout_s: float | None) -> ApiError:
    """The error for an end other than `stop` and `length`.

    timeout_s: seconds that the request had; None without a deadline.
    """
    match final.reason:
        case "deadline":
            message = f"The answer was not complete after {timeout_s:g} seconds."
            return ApiError(504, message, code="timeout")
        case "shutdown":
            message = "The server is shutting down; try again later."
            return ApiError(503, message, code="shutdown", headers={"retry-after": "5"})
        case "abort":
            return ApiError(500, "The server ended the request.", code="aborted")
        case _:
            message = f"The models failed: {final.error or 'no reason given'}"
            return ApiError(500, message, code="engine_error")
