"""Bodies that are too large are refused without being held in memory."""

from __future__ import annotations

import asyncio

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from trserve.http.errors import ApiError

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
        size = 0

        async def limited_receive() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > self._max_bytes:
                raise self._error()
            return message

        async def lingering_send(message: Message) -> None:
            if size > self._max_bytes and message["type"] == "http.response.body":
                await send({**message, "more_body": True})
                await _discard(receive)
                message = {"type": "http.response.body"}
            await send(message)

        declared = Headers(scope=scope).get("content-length", "")
        if declared.isdecimal() and int(declared) > self._max_bytes:
            size = int(declared)
            await self._error().response()(scope, receive, lingering_send)
            return
        await self._app(scope, limited_receive, lingering_send)

    def _error(self) -> ApiError:
        return ApiError(
            413,
            f"The request body is larger than {self._max_bytes} bytes.",
            code="body_too_large",
            headers={"connection": "close"},
        )


async def _discard(receive: Receive) -> None:
    """Read on for a moment: a client that is still writing would not see the answer otherwise."""
    try:
        async with asyncio.timeout(_LINGER_SECONDS):
            while (await receive()).get("more_body"):
                pass
    except TimeoutError:
        pass
