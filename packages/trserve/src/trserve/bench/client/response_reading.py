"""A response as it comes in: when its content came, how many tokens it had, how it ended."""

from __future__ import annotations

from array import array
from typing import Literal

import msgspec

from trserve.bench.client.completion_chunk import DONE, Chunk, decode_chunk
from trserve.bench.client.event_splitter import Event, EventSplitter
from trserve.bench.client.failure import Failure, failure, failure_of_error_event


class ResponseReading:
    """One response. `failure` is set once it is known to have failed; what comes then is ignored.

    Times are whatever the caller's clock says.

    content_at: of each chunk that had content.
    ended: when the response was complete: at its [DONE], else at the end of its bytes.
    """

    def __init__(self) -> None:
        self.content_at = array("d")
        self.ended: float | None = None
        self.status: int | None = None
        self.finish_reason: str | None = None
        self.failure: Failure | None = None
        self.input_tokens: int | None = None
        self._counted = 0  # completion tokens by usage, the most that was said
        self._fresh = False  # whether usage came with or after the last content
        self._content = 0  # choices with content
        self._indices: set[int] = set()  # of choices with content
        self._events = EventSplitter()

    @property
    def output_tokens(self) -> int | None:
        """As the server counts; else the chunks with content, of all choices; else None."""
        if self.tokens_from == "usage":
            return self._counted
        return self._content if self.tokens_from == "chunks" else None

    @property
    def tokens_from(self) -> Literal["usage", "chunks"] | None:
        """Usage that came before content, and says less than came, is not final."""
        if self._counted and (self._fresh or self._counted >= self._content):
            return "usage"
        return "chunks" if self.content_at else None

    @property
    def several_choices(self) -> bool:
        """Whether the stream brought more than one (n > 1)."""
        return len(self._indices) > 1

    def received(self, data: bytes, now: float) -> None:
        """Bytes of the stream."""
        self._take(self._events.feed(data), now)

    def stream_ended(self, now: float) -> None:
        """After the last bytes. A stream without [DONE] and without a finish reason is broken."""
        self._take(self._events.end(), now)
        if self.ended is not None or self.failure is not None:
            return
        if self.finish_reason is None:
            self.failure = failure("broken_stream", "the stream ended before the response did")
        else:
            self.ended = now

    def whole_body(self, body: bytes, now: float) -> None:
        """Instead, a response that wasn't streamed. It tells no pace, so no times of content."""
        try:
            chunk = decode_chunk(body)
        except msgspec.DecodeError as error:
            self.failure = failure("broken_stream", f"{error}: {_beginning(body)}")
            return
        if chunk.refusal is not None:
            self.failure = failure("error_event", chunk.refusal)
        elif not chunk.choices:
            self.failure = failure("broken_stream", f"no choices: {_beginning(body)}")
        else:
            self._count(chunk)
            self.finish_reason = _finish_reason(chunk)
            self.ended = now

    def _take(self, events: list[Event], now: float) -> None:
        for name, data in events:
            if self.ended is not None or self.failure is not None:
                return
            if data == DONE:
                self.ended = now
                return
            if name == b"error":
                self.failure = failure_of_error_event(data)
                return
            if not data:  # keeps the connection alive
                continue
            try:
                self._chunk(decode_chunk(data), now)
            except msgspec.DecodeError as error:
                self.failure = failure("broken_stream", f"{error}: {_beginning(data)}")

    def _chunk(self, chunk: Chunk, now: float) -> None:
        if chunk.refusal is not None:
            self.failure = failure("error_event", chunk.refusal)
            return
        brought = [choice.index or 0 for choice in chunk.choices or () if choice.has_content]
        if brought:
            self.content_at.append(now)
            self._content += len(brought)
            self._indices.update(brought)
            self._fresh = False
        self._count(chunk)
        self.finish_reason = _finish_reason(chunk) or self.finish_reason

    def _count(self, chunk: Chunk) -> None:
        if chunk.usage is None:
            return
        if chunk.usage.prompt_tokens is not None:
            self.input_tokens = int(chunk.usage.prompt_tokens)
        if chunk.usage.completion_tokens is not None:
            self._counted = max(self._counted, int(chunk.usage.completion_tokens))
            self._fresh = True


def _finish_reason(chunk: Chunk) -> str | None:
    return next((c.finish_reason for c in chunk.choices or () if c.finish_reason), None)


def _beginning(data: bytes) -> str:
    return repr(data[:60].decode("utf-8", "replace"))
