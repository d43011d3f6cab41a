"""The two paths that carry the load, served before FastAPI looks at anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.types import ASGIApp, Receive, Scope, Send

from trserve.gateway.http.generation_endpoint import GenerationEndpoint
from trserve.http.errors import ApiError

if TYPE_CHECKING:
    from trserve.gateway.gateway import Gateway


class HotPaths:
    """ASGI middleware; routing and dependencies would cost as much as the rest of a request."""

    def __init__(self, app: ASGIApp, gateway: Gateway) -> None:
        self._app = app
        chat = GenerationEndpoint(gateway, "chat", "/v1/chat/completions")
        text = GenerationEndpoint(gateway, "completions", "/v1/completions")
        self._endpoints = {endpoint.path: endpoint for endpoint in (chat, text)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """All other paths are the app's."""
        endpoint = self._endpoints.get(scope["path"]) if scope["type"] == "http" else None
        if endpoint is None:
            await self._app(scope, receive, send)
            return
        try:
            await endpoint(scope, receive, send)
        except ApiError as error:
            await error.response()(scope, receive, send)
