"""A response that is sent in one piece, once it is complete."""

from __future__ import annotations

from collections.abc import Callable

from pydantic import BaseModel
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from trserve.server.response.generation_response import GenerationResponse
from trserve.server.response.response_usage import response_usage
from trserve.server.response.running_choice import RunningChoice
from trserve.server.response.running_request import RunningRequest


class WholeResponse(GenerationResponse):
    """One JSON object."""

    media_type = "application/json"

    def __init__(
        self,
        running: RunningRequest,
        body_type: Callable[..., BaseModel],
        make_choice: Callable[[RunningRequest, RunningChoice], BaseModel],
    ) -> None:
        """Both types of completions have the same fields beside their choices.

        body_type: ChatCompletion or Completion.
        make_choice: one of the body's choices, of a choice that has ended.
        """
        super().__init__(running)
        self._body_type = body_type
        self._make_choice = make_choice
        self.init_headers()

    async def reply(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Raises ApiError where the generation fails."""
        running = self.running
        while not (running.done or running.client_left or running.failure):
            await running.advance()
        if running.client_left:
            return
        if running.failure is not None:
            raise running.failure
        headers = {"x-tokenrouter-degraded": "true"} if running.degraded else None
        body = self._body().model_dump_json()
        response = Response(body, headers=headers, media_type=self.media_type)
        await response(scope, receive, send)

    def _body(self) -> BaseModel:
        running, prepared = self.running, self.running.prepared
        return self._body_type(
            id=prepared.id,
            created=prepared.created,
            model=prepared.model,
            system_fingerprint=running.served.fingerprint,
            choices=[self._make_choice(running, choice) for choice in running.choices],
            usage=response_usage(running),
        )
