"""A response's bytes to its reading, and when there is nothing more to wait for."""

from __future__ import annotations

import asyncio
import time

from trserve.bench.client.connection import BrokenResponseError, NotConnectedError
from trserve.bench.client.failure import (
    failure_of_exception,
    failure_of_status,
    failure_to_stream,
)
from trserve.bench.client.response_reading import ResponseReading

_JSON = b"application/json"


class ReadingReceiver:
    """Receives one response of a completion.

    ended: set when the reading is complete or has failed. The connection then still has its
        receiver where the response goes on: it cannot be used again.
    stream: whether one was asked for.
    after_done: seconds that a response may go on after its [DONE].
    """

    def __init__(self, reading: ResponseReading, *, stream: bool, after_done: float) -> None:
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self._reading = reading
        self._stream = stream
        self._after_done = after_done
        self._patience: asyncio.TimerHandle | None = None
        self._streams = False  # it was asked for, and this is one
        self._pieces: list[bytes] = []  # of a body that is no stream

    def on_head(self, status: int, content_type: bytes) -> None:
        """Find out which kind of response it is."""
        self._reading.status = status
        kind = content_type.partition(b";")[0].strip().lower()
        self._streams = self._stream and status == 200 and kind != _JSON

    def on_body(self, data: bytes) -> None:
        """Read a stream as it comes; keep the rest for the end."""
        if not self._streams:
            self._pieces.append(data)
            return
        reading = self._reading
        if self._patience is not None:
            return  # only the response's end is still of interest
        try:
            reading.received(data, time.perf_counter())
        except Exception as error:  # noqa: BLE001  one request's bug must not end the load
            reading.failure = failure_of_exception(error, reading.status)
        if reading.failure is not None:
            self._end()
        elif reading.ended is not None:
            self._patience = self._loop.call_later(self._after_done, self._end)

    def on_end(self, error: NotConnectedError | BrokenResponseError | None) -> None:
        """The whole response is there, or what there will be of it."""
        reading = self._reading
        if reading.ended is None and reading.failure is None:
            try:
                if error is not None:
                    reading.failure = failure_of_exception(error, reading.status)
                elif self._streams:
                    reading.stream_ended(time.perf_counter())
                else:
                    self._whole(b"".join(self._pieces))
            except Exception as bug:  # noqa: BLE001  one request's bug must not end the load
                reading.failure = failure_of_exception(bug, reading.status)
        self._end()

    def on_timeout(self) -> None:
        """It took too long; harmless once it is complete."""
        if self._reading.ended is None and self._reading.failure is None:
            self._reading.failure = failure_of_exception(TimeoutError(), self._reading.status)
        self._end()

    def _whole(self, body: bytes) -> None:
        reading = self._reading
        if reading.status is not None and reading.status != 200:
            reading.failure = failure_of_status(reading.status, body)
        elif self._stream:
            reading.failure = failure_to_stream(body)
        else:
            reading.whole_body(body, time.perf_counter())

    def _end(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
        if not self.ended.done():
            self.ended.set_result(None)
