"""`POST /v1/chat/completions` and `/v1/completions`: plain ASGI, for it is the hot path."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING

import structlog
from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from trserve.errors import ApiError
from trserve.gateway.ask import Kind, read_ask
from trserve.gateway.dispatcher import Trip
from trserve.gateway.flight import Flight
from trserve.gateway.reply import Reply
from trserve.middleware.exchange import SCOPE_KEY

if TYPE_CHECKING:
    from trserve.gateway.gateway import Gateway
    from trserve.gateway.tracing import RequestSpan

_log = structlog.get_logger("trserve.gateway")

_NOT_SENT_ON = frozenset(
    (
        b"host",
        b"connection",
        b"keep-alive",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
        b"expect",
        b"content-length",
        b"content-encoding",
        b"accept-encoding",
        b"authorization",
        b"cookie",
        b"x-request-id",
    )
)
"""Of a request: hop by hop, set anew, or between the client and this gateway alone."""


class GenerationEndpoint:
    """An ASGI app for one path."""

    def __init__(self, gateway: Gateway, kind: Kind, path: str) -> None:
        self._gateway = gateway
        self._kind = kind
        self.path = path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Raises ApiError while nothing has been sent."""
        scope["route"] = self  # for metrics, as FastAPI does
        if scope["method"] != "POST":
            message = f"{scope['method']} is not allowed for {self.path}"
            headers = {"allow": "POST"}
            raise ApiError(405, message, code="method_not_allowed", headers=headers)
        gateway = self._gateway
        body = await _body(scope, receive)
        if body is None:
            return
        with gateway.tracing.request(self.path, scope["headers"]) as span:
            await self._fly(scope, receive, send, body, span)

    async def _fly(
        self, scope: Scope, receive: Receive, send: Send, body: bytes, span: RequestSpan
    ) -> None:
        gateway = self._gateway
        ask = read_ask(body, self._kind)
        now = asyncio.get_running_loop().time()
        timeout = gateway.deployment.server.request_timeout
        request_id: str = scope[SCOPE_KEY]
        span.asked(ask.model, request_id)
        flight = Flight(request_id, now, math.inf if timeout is None else now + timeout)
        trip = Trip(ask, self.path, _headers(scope, request_id), flight, Reply(send), span)
        with gateway.admitted(trip, scope):
            watch = asyncio.create_task(_watch(receive, flight))
            try:
                await gateway.dispatcher.fly(trip)
            finally:
                watch.cancel()
                gateway.ended(trip)
                await flight.settle()


async def _body(scope: Scope, receive: Receive) -> bytes | None:
    """The whole body; None if the client left. Raises ApiError (415): it isn't said to be JSON."""
    kind = Headers(scope=scope).get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        wanted = "Send the body as JSON, with the header Content-Type: application/json."
        raise ApiError(415, wanted, code="unsupported_media_type")
    parts = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return parts[0] if len(parts) == 1 else b"".join(parts)


def _headers(scope: Scope, request_id: str) -> dict[str, str]:
    headers = {
        name.decode("latin-1"): value.decode("latin-1")
        for name, value in scope["headers"]
        if name not in _NOT_SENT_ON
    }
    headers["x-request-id"] = request_id
    headers["accept-encoding"] = "identity"  # events are read on their way through
    return headers


async def _watch(receive: Receive, flight: Flight) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    flight.stop("client left")
