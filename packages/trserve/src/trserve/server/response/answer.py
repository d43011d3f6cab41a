"""ASGI responses that live as long as the generation behind them."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Callable

from pydantic import BaseModel
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from trserve.openai.sse import DONE, error_event
from trserve.server.response.chunk_writer import ChunkWriter
from trserve.server.response.generation import Generation
from trserve.server.response.response_usage import response_usage


class Answer(Response):
    """Starts the generation, and ends it when the client leaves or this response does."""

    def __init__(self, generation: Generation) -> None:
        self.generation = generation
        self.status_code = 200
        self.background = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Raises ApiError if the group refuses the requests."""
        self.generation.start()
        watch = asyncio.create_task(self._watch(receive))
        try:
            await self.reply(scope, receive, send)
        finally:
            watch.cancel()
            self.generation.close()

    @abstractmethod
    async def reply(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take turns until the end, and answer."""

    async def _watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.generation.leave()


class JsonAnswer(Answer):
    """The whole response at once. build: makes it from the finished generation."""

    media_type = "application/json"

    def __init__(self, generation: Generation, build: Callable[[Generation], BaseModel]) -> None:
        super().__init__(generation)
        self._build = build
        self.init_headers()

    async def reply(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One JSON object."""
        generation = self.generation
        while not (generation.done or generation.gone or generation.failure):
            await generation.turn()
        if generation.gone:
            return
        if generation.failure is not None:
            raise generation.failure
        headers = {"x-tokenrouter-degraded": "true"} if generation.degraded else None
        body = self._build(generation).model_dump_json()
        response = Response(body, headers=headers, media_type=self.media_type)
        await response(scope, receive, send)


class EventStream(Answer):
    """Server-sent events; what came in one turn of the group goes out in one piece.

    The status line waits for the first event, so that a request that fails before its first token
    still gets a status that says so.
    """

    media_type = "text/event-stream"

    def __init__(self, generation: Generation, writer: ChunkWriter) -> None:
        super().__init__(generation)
        self._writer = writer
        self.init_headers({"cache-control": "no-cache", "x-accel-buffering": "no"})

    async def reply(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Chunks, then usage if wanted or an error, then [DONE]."""
        del scope, receive
        generation, write = self.generation, self._writer.write
        begun = ended = False
        while not ended:
            changed = await generation.turn()
            if generation.gone:
                return
            if generation.failure is not None and not begun:
                raise generation.failure
            data = b"".join(map(write, changed))
            if generation.failure is not None or generation.done:
                data += self._last_events()
                ended = True
            if data:
                if not begun:
                    begun = True
                    await send(
                        {
                            "type": "http.response.start",
                            "status": self.status_code,
                            "headers": self.raw_headers,
                        }
                    )
                await send({"type": "http.response.body", "body": data, "more_body": not ended})

    def _last_events(self) -> bytes:
        generation = self.generation
        if generation.failure is not None:
            return error_event(generation.failure.body()) + DONE
        if generation.order.include_usage:
            return self._writer.usage(response_usage(generation)) + DONE
        return DONE
