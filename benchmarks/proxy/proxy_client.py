"""What one client of a proxy sees: its replies, one after another, over a kept connection."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field

from trserve.bench.client.connection import BrokenResponseError, Connection, NotConnectedError
from trserve.bench.client.server_address import ServerAddress

_DONE = b"data: [DONE]\n\n"
_EVENT_END = b"\n\n"
_TAIL_BYTES = 512


@dataclass(slots=True)
class ProxyReply:
    """What came of one request. Times in seconds of time.perf_counter.

    events: of a streamed reply, [DONE] included.
    times: of each event.
    tail: the last of a stream.
    failure: empty, or why this reply is none.
    """

    began: float
    ended: float = 0.0
    status: int = 0
    size: int = 0
    events: int = 0
    times: array[float] = field(default_factory=lambda: array("d"))
    tail: bytes = b""
    failure: str = ""

    @property
    def done(self) -> bool:
        """Whether it is a stream that came to its end."""
        return self.tail.endswith(_DONE)


class ProxyClient:
    """Sends one request at a time to a port of this host; receives what comes of each.

    ended: called with each reply when it is complete or has failed.
    streams: whether replies are server-sent events, whose times are wanted.
    """

    def __init__(
        self, port: int, ended: Callable[[ProxyClient, ProxyReply], None], *, streams: bool = False
    ) -> None:
        self._connection = Connection(ServerAddress("127.0.0.1", port))
        self._ended = ended
        self._streams = streams
        self._reply = ProxyReply(0.0)

    @property
    def reply(self) -> ProxyReply | None:
        """Of the request under way, as far as it has come."""
        return None if self._connection.receiver is None else self._reply

    def send(self, request: bytes, began: float | None = None) -> None:
        """began: when it should have been sent; None: now."""
        self._reply = ProxyReply(time.perf_counter() if began is None else began)
        self._connection.send(request, self)

    def close(self) -> None:
        """Give up what is under way, without a word to `ended`."""
        self._connection.close()

    def on_head(self, status: int, content_type: bytes) -> None:
        """Keep the status."""
        self._reply.status = status

    def on_body(self, data: bytes) -> None:
        """Count its bytes, and the events that end in it, wherever they are cut."""
        reply = self._reply
        reply.size += len(data)
        if self._streams:
            events = data.count(_EVENT_END) + (reply.tail[-1:] == b"\n" == data[:1])
            if events:
                now = time.perf_counter()
                reply.events += events
                reply.times.extend([now] * events)
            reply.tail = (reply.tail + data)[-_TAIL_BYTES:]

    def on_end(self, error: NotConnectedError | BrokenResponseError | None) -> None:
        """Judge the reply and hand it on."""
        reply = self._reply
        if error is not None:
            reply.failure = str(error)
        elif reply.status != 200:
            reply.failure = f"status {reply.status}"
        elif self._streams and not reply.done:
            reply.failure = "the stream has no end"
        reply.ended = time.perf_counter()
        self._ended(self, reply)
