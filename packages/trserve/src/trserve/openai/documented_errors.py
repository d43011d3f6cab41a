"""What the API's own documentation says of errors."""

from __future__ import annotations

from typing import Any

from trserve.openai.schemas.error_response import ErrorResponse

_TEXTS = {
    400: "The request is wrong; `param` names the field",
    401: "The API key is missing or wrong",
    403: "This key may not do that",
    404: "No such model",
    413: "The body is too large",
    415: "The body is not declared as JSON",
    429: "The queue is full; `Retry-After` says when to try again",
    500: "The models failed",
    503: "The server is draining, or no model is left",
    504: "The request took too long",
}

Responses = dict[int | str, dict[str, Any]]


def documented_errors(*statuses: int) -> Responses:
    """For `responses=` of a route; `default` keeps out FastAPI's own 422, which never comes."""
    texts: dict[int | str, str] = {status: _TEXTS[status] for status in statuses}
    texts["default"] = "Any other error"
    return {status: {"model": ErrorResponse, "description": text} for status, text in texts.items()}


def documented_generation(text: str) -> Responses:
    """For `responses=` of an endpoint that can stream. text: what a whole answer holds."""
    stream = {"text/event-stream": {"schema": {"type": "string"}}}
    answer = {"description": f"{text}; with `stream`, chunks as events", "content": stream}
    return documented_errors(400, 401, 404, 413, 415, 429, 500, 503, 504) | {200: answer}
