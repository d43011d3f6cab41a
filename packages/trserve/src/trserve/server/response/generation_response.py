"""ASGI responses that live as long as the generation behind them."""

from __future__ import annotations

from abc import abstractmethod

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from trserve.http.client_disconnect import call_when_client_leaves
from trserve.server.response.running_request import RunningRequest


class GenerationResponse(Response):
    """Starts the generation, and ends it when the client leaves or this response does."""

    def __init__(self, running: RunningRequest) -> None:
        self.running = running
        self.status_code = 200
        self.background = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Raises ApiError if the group refuses the requests."""
        self.running.start()
        watch = call_when_client_leaves(receive, self.running.client_has_left)
        try:
            await self.reply(scope, receive, send)
        finally:
            watch.cancel()
            self.running.close()

    @abstractmethod
    async def reply(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Follow the generation to its end, and answer."""
