"""Sending requests by a plan: open loops follow a schedule, closed loops their clients.

Coordinated omission: a generator that waits for a slow server before it sends the next request
leaves out the very requests that would have waited. So the schedule of an open loop is fixed
beforehand and latencies count from it, whenever the request really went out.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence

from trserve.bench.client.request_record import RequestRecord
from trserve.bench.client.response_reading import ResponseReading

Serve = Callable[[bytes, ResponseReading], Awaitable[None]]


class LoadRun:
    """One load on one server, and what it has seen so far.

    serve: sends a body, reads the response, raises nothing but CancelledError.
    bodies: as many as will be sent.
    started: when the load did, by time.perf_counter.

    Cancelling `open_loop` or `closed_loop` ends what is in flight.
    """

    def __init__(self, serve: Serve, bodies: Iterator[bytes]) -> None:
        self.records: list[RequestRecord] = []
        self.failed = 0
        self.begun = 0
        self.sent = 0
        self.in_flight = 0
        self.peak_in_flight = 0
        self._serve = serve
        self._bodies = bodies
        self.started = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Since the load began."""
        return time.perf_counter() - self.started

    async def open_loop(self, at: Sequence[float], max_in_flight: int | None) -> None:
        """Each request at its time, in seconds from now; ascending.

        max_in_flight: what would exceed it waits, first come first served, and its latency counts
            from its schedule all the same.
        """
        slots = None if max_in_flight is None else asyncio.Semaphore(max_in_flight)
        self.started, now = time.perf_counter(), 0.0
        async with asyncio.TaskGroup() as requests:
            for scheduled in at:
                body = next(self._bodies)  # made while there is time
                # again where a timer was early; what is due together goes out in one turn
                while scheduled > now:
                    await asyncio.sleep(max(0.0, scheduled - self.seconds))
                    now = self.seconds
                requests.create_task(self._scheduled(body, scheduled, slots))

    async def closed_loop(
        self, clients: int, requests: int | None, seconds: float | None = None
    ) -> None:
        """So many clients, until so many requests have begun or so long has passed."""
        self.started = time.perf_counter()

        async def client() -> None:
            while (requests is None or self.begun < requests) and (
                seconds is None or self.seconds < seconds
            ):
                body, now = next(self._bodies), self.seconds
                await self._request(self._begin(), body, now, now)

        async with asyncio.TaskGroup() as group:
            for _ in range(clients):
                group.create_task(client())

    async def _scheduled(
        self, body: bytes, scheduled: float, slots: asyncio.Semaphore | None
    ) -> None:
        number, begun = self._begin(), self.seconds
        if slots is None:
            await self._request(number, body, scheduled, begun)
        else:
            async with slots:
                await self._request(number, body, scheduled, begun)

    def _begin(self) -> int:
        self.begun += 1
        return self.begun - 1

    async def _request(self, number: int, body: bytes, scheduled: float, begun: float) -> None:
        self.sent += 1
        self.in_flight += 1
        self.peak_in_flight = max(self.peak_in_flight, self.in_flight)
        reading, sent = ResponseReading(), self.seconds
        try:
            await self._serve(body, reading)
        finally:
            self.in_flight -= 1
        self.failed += reading.failure is not None
        self.records.append(self._record(reading, number, scheduled, begun, sent))

    def _record(
        self, reading: ResponseReading, number: int, scheduled: float, begun: float, sent: float
    ) -> RequestRecord:
        ended = self.seconds if reading.ended is None else reading.ended - self.started
        started = self.started
        for index, at in enumerate(reading.content_at):
            reading.content_at[index] = at - started
        return RequestRecord(
            number=number,
            scheduled=scheduled,
            begun=begun,
            sent=sent,
            ended=ended,
            content_at=reading.content_at,
            input_tokens=reading.input_tokens,
            output_tokens=reading.output_tokens,
            tokens_from=reading.tokens_from,
            several_choices=reading.several_choices,
            status=reading.status,
            finish_reason=reading.finish_reason,
            failure=reading.failure,
        )
