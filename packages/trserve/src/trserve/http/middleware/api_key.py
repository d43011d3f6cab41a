"""API keys, where there are any."""

from __future__ import annotations

import hmac
from typing import Protocol

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from trserve.http.errors import ApiError

CALLER_KEY = "trserve.caller"
"""Where the ASGI scope has whose key it was, under `/v1/`."""


class Keys(Protocol):
    """Knows keys."""

    def find(self, key: bytes) -> object | None:
        """Whose it is; None: nobody's."""


class OneKey:
    """The one key that lets in."""

    def __init__(self, key: str) -> None:
        self._key = key.encode()

    def find(self, key: bytes) -> object | None:
        """The same for everybody who has it; takes as long for any other."""
        return "key" if hmac.compare_digest(key, self._key) else None


class ApiKeyMiddleware:
    """Lets requests under `/v1/` pass only with `Authorization: Bearer KEY`."""

    def __init__(self, app: ASGIApp, keys: Keys) -> None:
        self._app = app
        self._keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """401 before anything of the body is read."""
        if scope["type"] == "http" and scope["path"].startswith("/v1/"):
            try:
                scope[CALLER_KEY] = bearer(Headers(scope=scope), self._keys)
            except ApiError as error:
                await error.response()(scope, receive, send)
                return
        await self._app(scope, receive, send)


def bearer(headers: Headers, keys: Keys) -> object:
    """Whose key the request brings. Raises ApiError (401)."""
    scheme, _, key = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not key:
        raise _refusal("No API key: send the header Authorization: Bearer KEY.", "missing_api_key")
    caller = keys.find(key.strip().encode("latin-1"))
    if caller is None:
        raise _refusal("Wrong API key.", "invalid_api_key")
    return caller


def _refusal(message: str, code: str) -> ApiError:
    return ApiError(401, message, code=code, headers={"www-authenticate": "Bearer"})
