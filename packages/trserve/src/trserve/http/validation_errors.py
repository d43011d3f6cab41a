"""From pydantic's list of complaints to one OpenAI-style error that names the field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi.exceptions import RequestValidationError
from starlette.requests import Request
from starlette.responses import Response

from trserve.http.errors import ApiError

_CODES = {
    "missing": "missing_required_parameter",
    "extra_forbidden": "unknown_parameter",
    "unsupported": "unsupported_parameter",
    "json_invalid": "invalid_json",
}
_LONGEST_NAME = 100


async def validation_error_response(request: Request, error: Exception) -> Response:
    """Exception handler for RequestValidationError."""
    del request
    assert isinstance(error, RequestValidationError)
    return validation_error(error.errors(), error.body).response()


def validation_error(errors: Sequence[Mapping[str, Any]], body: object) -> ApiError:
    """The first complaint, with the field's path (`messages[0].content`) in `param`."""
    first = errors[0]
    kind = str(first["type"])
    if isinstance(body, bytes):
        return ApiError(
            415,
            "Send the request body as JSON, with the header Content-Type: application/json.",
            code="unsupported_media_type",
        )
    if kind == "json_invalid":
        reason, position = first["ctx"]["error"], first["loc"][-1]
        message = f"The request body is not valid JSON: {reason} (at character {position})."
        return ApiError(400, message, code="invalid_json")
    path = first.get("ctx", {}).get("param") or field_path(first["loc"][1:], body)
    if not path:
        return ApiError(400, "The request body must be a JSON object.", code="invalid_type")
    code = _CODES.get(kind, "invalid_type" if kind.endswith("_type") else "invalid_value")
    return ApiError(400, _message(kind, path, first), param=path, code=code)


def field_path(loc: Sequence[str | int], body: object) -> str:
    """`messages[0].content` from pydantic's location, without the names of union branches.

    Branch names are the steps that lead nowhere in the body that was sent; only the last step may
    be absent from it, when it names a missing field.
    """
    path, here = "", body
    for i, step in enumerate(loc):
        if isinstance(here, list) and isinstance(step, int) and step < len(here):
            path, here = f"{path}[{step}]", here[step]
        elif isinstance(here, dict) and isinstance(step, str):
            if step in here:
                here = here[step]
            elif i < len(loc) - 1:
                continue
            name = step if len(step) <= _LONGEST_NAME else step[:_LONGEST_NAME] + "…"
            path = f"{path}.{name}" if path else name
    return path


def _message(kind: str, path: str, error: Mapping[str, Any]) -> str:
    if kind == "missing":
        return f"Missing required parameter: '{path}'."
    if kind == "extra_forbidden":
        return f"Unknown parameter: '{path}'."
    message = str(error["msg"]).removeprefix("Value error, ").removeprefix("Input ")
    if kind == "union_tag_invalid":
        message = f"must be one of {error['ctx']['expected_tags']}, not '{error['ctx']['tag']}'"
    elif kind == "union_tag_not_found":
        message = "must be an object with a 'role'"
    return f"'{path}' {message}."
