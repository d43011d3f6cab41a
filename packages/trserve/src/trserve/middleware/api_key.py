"""The API key, where one is set."""

from __future__ import annotations

import hmac

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from trserve.errors import ApiError


class ApiKeyMiddleware:
    """Lets requests under `/v1/` pass only with `Authorization: Bearer KEY`."""

    def __init__(self, app: ASGIApp, api_key: str) -> None:
        self._app = app
        self._api_key = api_key.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """401 before anything of the body is read."""
        if scope["type"] == "http" and scope["path"].startswith("/v1/"):
            scheme, _, key = Headers(scope=scope).get("authorization", "").partition(" ")
            if scheme.lower() != "bearer" or not key:
                message = "No API key: send the header Authorization: Bearer KEY."
                await _refuse(message, "missing_api_key", scope, receive, send)
                return
            if not hmac.compare_digest(key.strip().encode("latin-1"), self._api_key):
                await _refuse("Wrong API key.", "invalid_api_key", scope, receive, send)
                return
        await self._app(scope, receive, send)


async def _refuse(message: str, code: str, scope: Scope, receive: Receive, send: Send) -> None:
    headers = {"www-authenticate": "Bearer"}
    await ApiError(401, message, code=code, headers=headers).response()(scope, receive, send)
