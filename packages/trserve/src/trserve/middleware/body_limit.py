"""Bodies that are too large are refused without being held in memory."""

from __future__ import annotations

import asyncio

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from trserve.errors import ApiError

_LINGER_SECONDS = 2.0


class BodyLimitMiddleware:
    """413 by the declared length, or as soon as more than `max_bytes` have come."""

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self._app = app
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The connection of a client that sends too much is closed."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        declared = Headers(scope=scope).get("content-length", "")
        if declared.isdecimal() and int(declared) > self._max_bytes:
            await self._refuse(receive, send)
            return
        size = 0

        async def limited_receive() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > self._max_bytes:
                raise _TooLargeError
            return message

        try:
            await self._app(scope, limited_receive, send)
        except _TooLargeError:
            await self._refuse(receive, send)

    async def _refuse(self, receive: Receive, send: Send) -> None:
        """Answer at once, then read on for a moment so that the client gets to see the answer."""
        limit = self._max_bytes
        error = ApiError(
            413,
            f"The request body is larger than {limit} bytes.",
            code="body_too_large",
            headers={"connection": "close"},
        )
        response = error.response()
        await send({"type": "http.response.start", "status": 413, "headers": response.raw_headers})
        await send({"type": "http.response.body", "body": response.body, "more_body": True})
        try:
            async with asyncio.timeout(_LINGER_SECONDS):
                while (await receive()).get("more_body"):
                    pass
        except TimeoutError:
            pass
        await send({"type": "http.response.body", "body": b"", "more_body": False})


class _TooLargeError(Exception):
    """Passes through the framework, which knows nothing of it."""
