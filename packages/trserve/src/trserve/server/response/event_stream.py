"""A response that is streamed as server-sent events."""

from __future__ import annotations

from starlette.types import Receive, Scope, Send

from trserve.openai.sse import DONE, error_event
from trserve.server.response.chunk_writer import ChunkWriter
from trserve.server.response.generation_response import GenerationResponse
from trserve.server.response.response_usage import response_usage
from trserve.server.response.running_request import RunningRequest


class EventStream(GenerationResponse):
    """What came in one turn of the group goes out in one piece.

    The status line waits for the first event, so that a request that fails before its first token
    still gets a status that says so.
    """

    media_type = "text/event-stream"

    def __init__(self, running: RunningRequest, writer: ChunkWriter) -> None:
        super().__init__(running)
        self._writer = writer
        self.init_headers({"cache-control": "no-cache", "x-accel-buffering": "no"})

    async def reply(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Chunks, then usage if wanted or an error, then [DONE]."""
        del scope, receive
        running, write = self.running, self._writer.write
        begun = ended = False
        while not ended:
            changed = await running.advance()
            if running.client_left:
                return
            if running.failure is not None and not begun:
                raise running.failure
            data = b"".join(map(write, changed))
            if running.failure is not None or running.done:
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
        running = self.running
        if running.failure is not None:
            return error_event(running.failure.body()) + DONE
        if running.prepared.include_usage:
            return self._writer.usage(response_usage(running)) + DONE
        return DONE
