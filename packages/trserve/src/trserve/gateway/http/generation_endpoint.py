"""`POST /v1/chat/completions` and `/v1/completions`: plain ASGI, for it is the hot path."""

from __future__ import annotations

import asyncio
import math
from contextlib import ExitStack
from typing import TYPE_CHECKING

import structlog
from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from trserve.gateway.request.ask import Kind, read_ask
from trserve.gateway.request.flight import Flight
from trserve.gateway.request.reply import Reply
from trserve.gateway.request.trip import Trip
from trserve.gateway.request.trip_end import trip_ended
from trserve.http.errors import ApiError
from trserve.http.middleware.exchange import SCOPE_KEY

if TYPE_CHECKING:
    from trserve.gateway.gateway import Gateway
    from trserve.gateway.metrics.tracing import RequestSpan

_log = structlog.get_logger("trserve.gateway")

_CLIENT_LEFT = 499  # as nginx has it, for logs

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
        with ExitStack() as stack:
            span = stack.enter_context(self._gateway.tracing.request(self.path, scope["headers"]))
            try:
                trip = await self._trip(scope, receive, send, span)
                if trip is None:
                    return
                stack.enter_context(self._gateway.admitted(trip, scope))
                trip.ask = self._gateway.requests.settled(trip.ask)
            except ApiError as error:
                span.answered(error.status_code)
                self._refused(scope, error)
                raise
            await self._fly(trip, receive)

    async def _trip(
        self, scope: Scope, receive: Receive, send: Send, span: RequestSpan
    ) -> Trip | None:
        """The request, read; None if the client left meanwhile."""
        if scope["method"] != "POST":
            message = f"{scope['method']} is not allowed for {self.path}"
            headers = {"allow": "POST"}
            raise ApiError(405, message, code="method_not_allowed", headers=headers)
        now = asyncio.get_running_loop().time()
        server, timeouts = self._gateway.deployment.server, self._gateway.watchdog.timeouts
        body = await _body(scope, receive, timeouts.client_s)
        if body is None:
            return None
        ask = read_ask(body, self._kind)
        request_id: str = scope[SCOPE_KEY]
        span.asked(ask.model, request_id)
        limit = server.request_timeout
        deadline = math.inf if limit is None else now + limit
        flight = Flight(request_id, now, deadline, stream=ask.stream)
        query: bytes = scope["query_string"]
        path = f"{self.path}?{query.decode('latin-1')}" if query else self.path
        return Trip(ask, path, _headers(scope, request_id), flight, Reply(send), span)

    async def _fly(self, trip: Trip, receive: Receive) -> None:
        watch = asyncio.create_task(_watch(receive, trip.flight))
        status = 500
        try:
            await self._gateway.dispatcher.fly(trip)
            left = trip.flight.stopped in ("client left", "client stalled")
            status = _CLIENT_LEFT if left else trip.reply.status
        except ApiError as error:
            status = error.status_code
            raise
        finally:
            watch.cancel()
            trip_ended(self._gateway, trip, status)
            await trip.flight.settle()

    def _refused(self, scope: Scope, error: ApiError) -> None:
        if self._gateway.deployment.server.access_log:
            _log.info(
                "request refused",
                request_id=scope[SCOPE_KEY],
                path=self.path,
                status=error.status_code,
                code=error.code,
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


def _headers(scope: Scope, request_id: str) -> dict[str, str]:
    """Those for the instance; several of one name are joined (RFC 9110, 5.3)."""
    dropped = _NOT_SENT_ON
    for name, value in scope["headers"]:
        if name == b"connection":
            dropped |= {each.strip() for each in value.lower().split(b",")}
    headers: dict[str, str] = {}
    for raw, value in scope["headers"]:
        if raw not in dropped:
            name, text = raw.decode("latin-1"), _text(value)
            headers[name] = f"{headers[name]}, {text}" if name in headers else text
    headers["x-request-id"] = request_id
    headers["accept-encoding"] = "identity"  # events are read on their way through
    return headers


def _text(value: bytes) -> str:
    """What aiohttp, which sends UTF-8, makes the same bytes of, where that can be."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


async def _watch(receive: Receive, flight: Flight) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    flight.stop("client left")
