"""Every HTTP exchange has an id, is counted, and gets an answer even if the server is at fault."""

from __future__ import annotations

import re
import uuid
from typing import Protocol

import structlog
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from trserve.http.errors import ApiError

_log = structlog.get_logger("trserve")
_SANE = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}")
SCOPE_KEY = "trserve.request_id"
"""Where the ASGI scope has the exchange's id."""


class CountsResponses(Protocol):
    """The part of a server's metrics that is used here."""

    def responded(self, path: str, status: int) -> None:
        """Count one HTTP response; path is the route's, with its parameters unfilled."""


def request_id_of(request: Request) -> str:
    """The id of the exchange, as in its response's `x-request-id`."""
    request_id: str = request.scope[SCOPE_KEY]
    return request_id


class ExchangeMiddleware:
    """Sends the client's `x-request-id` back if it is sane, else a new one."""

    def __init__(self, app: ASGIApp, metrics: CountsResponses) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Unexpected errors are logged with the id and answered with 500."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        wanted = Headers(scope=scope).get("x-request-id", "")
        request_id = wanted if _SANE.fullmatch(wanted) else uuid.uuid4().hex
        scope[SCOPE_KEY] = request_id
        header = (b"x-request-id", request_id.encode())
        status = 0
        left = False

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": [*message.get("headers", ()), header]}
            await send(message)

        async def watched_receive() -> Message:
            nonlocal left
            message = await receive()
            if message["type"] == "http.disconnect" and not status:
                left = True
            return message

        try:
            await self._app(scope, watched_receive, send_with_id)
        except Exception:
            _log.exception("request failed", request_id=request_id, path=scope["path"])
            if status:
                raise
            error = ApiError(500, "The server failed to answer.", code="internal_error")
            await error.response()(scope, receive, send_with_id)
        finally:
            path = getattr(scope.get("route"), "path", "other")
            self._metrics.responded(path, 499 if left else status or 499)
