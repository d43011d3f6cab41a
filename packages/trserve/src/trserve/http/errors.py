"""Errors as OpenAI's clients expect them: `{"error": {message, type, param, code}}`."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from trsched.errors import (
    GroupUnavailableError,
    QueueFullError,
    RequestError,
    RequestTooLongError,
)

_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    408: "timeout_error",
    429: "rate_limit_error",
    500: "server_error",
    502: "server_error",
    503: "service_unavailable_error",
    504: "timeout_error",
}


class ApiError(HTTPException):
    """An answer other than the one asked for.

    message: what is wrong and what to do.
    param: path of the request's field at fault.
    code: for programs, stable.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(status, detail=message, headers=headers)
        self.message = message
        self.param = param
        self.code = code

    def body(self) -> bytes:
        """The error object as JSON; text that is not Unicode (lone surrogates) is escaped."""
        error = {
            "message": _printable(self.message),
            "type": _TYPES.get(self.status_code, "invalid_request_error"),
            "param": None if self.param is None else _printable(self.param),
            "code": self.code,
        }
        return msgspec.json.encode({"error": error})

    def response(self) -> Response:
        """The error as a whole HTTP response."""
        return Response(
            self.body(),
            status_code=self.status_code,
            headers=self.headers,
            media_type="application/json",
        )


def from_request_error(error: RequestError, prompt_param: str) -> ApiError:
    """The scheduler's refusal as an HTTP error. prompt_param: the endpoint's name of the prompt."""
    message, param = str(error), error.param
    if param == "threshold":
        param = "tokenrouter.threshold"
    match error:
        case RequestTooLongError():
            return ApiError(
                400, message, param=param or prompt_param, code="context_length_exceeded"
            )
        case QueueFullError():
            return ApiError(
                429, message, param=param, code="queue_full", headers={"retry-after": "1"}
            )
        case GroupUnavailableError():
            return ApiError(
                503, message, param=param, code="unavailable", headers={"retry-after": "5"}
            )
    return ApiError(400, message, param=param, code="invalid_value")


async def http_error_response(request: Request, error: Exception) -> Response:
    """Exception handler for every HTTPException: ours, and the framework's 404 and 405."""
    assert isinstance(error, HTTPException)
    if isinstance(error, ApiError):
        return error.response()
    codes = {404: "not_found", 405: "method_not_allowed", 400: "invalid_json"}
    messages = {
        404: f"Unknown path: {request.method} {request.url.path}",
        405: f"{request.method} is not allowed for {request.url.path}",
        400: "The request body is not valid JSON in UTF-8.",
    }
    message = messages.get(error.status_code, str(error.detail))
    code = codes.get(error.status_code)
    return ApiError(error.status_code, message, code=code, headers=error.headers).response()


def _printable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
