"""`POST /v1/chat/completions` and `/v1/completions`: plain ASGI, for it is the hot path.

What happens with a request once it has been read is in `request.request_handler`.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING

from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from trserve.gateway.http.body_parser import Kind, parse_body
from trserve.gateway.request.client_response import ClientResponse
from trserve.gateway.request.ended_request import record_refusal
from trserve.gateway.request.received_request import ReceivedRequest
from trserve.gateway.upstream.headers import sent_on
from trserve.http.errors import ApiError
from trserve.http.middleware.api_key import CALLER_KEY
from trserve.http.middleware.exchange import SCOPE_KEY

if TYPE_CHECKING:
    from trserve.gateway.gateway import Gateway


class GenerationEndpoint:
    """An ASGI app for one path."""

    def __init__(self, gateway: Gateway, kind: Kind, path: str) -> None:
        self._gateway = gateway
        self._kind = kind
        self.path = path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Raises ApiError while nothing has been sent."""
        scope["route"] = self  # for metrics, as FastAPI does
        with self._gateway.tracing.request(self.path, scope["headers"]) as span:
            try:
                received = await self._received(scope, receive)
            except ApiError as error:
                access_log = self._gateway.deployment.server.access_log
                record_refusal(scope[SCOPE_KEY], self.path, error, span, access_log=access_log)
                raise
            if received is None:
                return
            span.asked(received.body.model, received.id)
            caller = scope.get(CALLER_KEY)
            await self._gateway.handler.handle(
                received, caller, receive, ClientResponse(send), span
            )

    async def _received(self, scope: Scope, receive: Receive) -> ReceivedRequest | None:
        """The request, read; None if the client left meanwhile. Raises ApiError."""
        if scope["method"] != "POST":
            message = f"{scope['method']} is not allowed for {self.path}"
            headers = {"allow": "POST"}
            raise ApiError(405, message, code="method_not_allowed", headers=headers)
        now = asyncio.get_running_loop().time()
        deployment = self._gateway.deployment
        body = await _body(scope, receive, deployment.gateway.timeouts.client_s)
        if body is None:
            return None
        limit, query = deployment.server.request_timeout, scope["query_string"]
        request_id: str = scope[SCOPE_KEY]
        return ReceivedRequest(
            id=request_id,
            path=f"{self.path}?{query.decode('latin-1')}" if query else self.path,
            headers=sent_on(scope["headers"], request_id),
            body=parse_body(body, self._kind),
            received_at=now,
            deadline=math.inf if limit is None else now + limit,
        )


async def _body(scope: Scope, receive: Receive, limit_s: float) -> bytes | None:
    """The whole body; None if the client left.

    Raises ApiError: it isn't said to be JSON (415), or takes too long to come (408).
    """
    kind = Headers(scope=scope).get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        wanted = "Send the body as JSON, with the header Content-Type: application/json."
        raise ApiError(415, wanted, code="unsupported_media_type")
    try:
        async with asyncio.timeout(limit_s):
            return await _whole(receive)
    except TimeoutError:
        headers = {"connection": "close"}
        message = f"The request's body did not come within {limit_s:g} seconds."
        raise ApiError(408, message, code="request_timeout", headers=headers) from None


async def _whole(receive: Receive) -> bytes | None:
    parts = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return parts[0] if len(parts) == 1 else b"".join(parts)
