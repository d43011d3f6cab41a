"""The generation behind one HTTP request, from submission to the last event."""

from __future__ import annotations

import time
from collections.abc import Collection

import structlog

from trsched.errors import RequestError
from trsched.loops.stream import Stream
from trsched.request import FinalEvent
from trserve.http.errors import ApiError, from_request_error
from trserve.server.group.event_queue import EventQueue
from trserve.server.group.served_group import ServedGroup
from trserve.server.response.generation_failure import generation_failure
from trserve.server.response.prepared_request import PreparedRequest
from trserve.server.response.running_choice import RunningChoice

_log = structlog.get_logger("trserve")


class RunningRequest:
    """`start`, then `advance` until `done`, `failure` or `client_left`; `close` in any case.

    choices: in order of their indices.
    failure: why the response cannot be completed.
    client_left: nobody waits for the response any more.
    """

    def __init__(self, served: ServedGroup, prepared: PreparedRequest) -> None:
        self.served = served
        self.prepared = prepared
        self.choices = [
            RunningChoice(i, served.tokenizer, prepared.stops, len(served.models))
            for i in range(len(prepared.requests))
        ]
        self.failure: ApiError | None = None
        self.client_left = False
        self._running: dict[Stream, RunningChoice] = {}
        self._queue = EventQueue()
        self._started_at = time.perf_counter()

    @property
    def streams(self) -> Collection[Stream]:
        """The group's streams that have not ended."""
        return self._running.keys()

    @property
    def done(self) -> bool:
        """All choices have ended."""
        return not self._running

    @property
    def degraded(self) -> bool:
        """Some choice was finished without a model that died."""
        return any(choice.degraded for choice in self.choices)

    def start(self) -> None:
        """Submit all requests, or none: raises ApiError."""
        for choice, request in zip(self.choices, self.prepared.requests, strict=True):
            try:
                stream = self.served.group.submit(request)
            except RequestError as error:
                self._abort()
                raise from_request_error(error, self.prepared.prompt_param) from error
            self._running[stream] = choice
            self.served.delivery.register(stream, self._queue)

    async def advance(self) -> list[RunningChoice]:
        """Wait for events; the choices that have something new, each once."""
        batch = await self._queue.get()
        if self.client_left:
            return []
        now = time.perf_counter()
        changed = []
        for stream, events in batch:
            choice = self._running[stream]
            stopped = choice.stopped
            choice.receive(events, now)
            if choice.final is not None:
                del self._running[stream]
                self._note_failure(choice, choice.final)
            elif choice.stopped and not stopped:
                self.served.group.abort(stream, "stop")
            if choice not in changed:
                changed.append(choice)
        return changed

    def client_has_left(self) -> None:
        """End its requests at once."""
        self.client_left = True
        self._abort()
        self._queue.close()

    def close(self) -> None:
        """End what still runs, count and log."""
        self._abort()
        seconds = time.perf_counter() - self._started_at
        first = min((c.first_at for c in self.choices if c.first_at is not None), default=None)
        ttft = None if first is None else first - self._started_at
        self.served.metrics.finished(self.prepared.prompt_tokens, self.choices, seconds, ttft)
        _log.info(
            "request finished",
            request_id=self.prepared.request_id,
            response_id=self.prepared.id,
            model=self.prepared.model,
            finish=",".join(sorted({str(c.finish_reason or "abort") for c in self.choices})),
            prompt_tokens=self.prepared.prompt_tokens,
            completion_tokens=sum(choice.token_count for choice in self.choices),
            handoffs=sum(c.final.handoffs for c in self.choices if c.final is not None),
            ttft_s=None if ttft is None else round(ttft, 4),
            tpot_s=self._seconds_per_token(),
            seconds=round(seconds, 4),
        )

    def _abort(self) -> None:
        for stream in self._running:
            self.served.delivery.forget(stream)
            self.served.group.abort(stream, "abort")
        self._running.clear()

    def _seconds_per_token(self) -> float | None:
        spans = [time for choice in self.choices if (time := choice.seconds_per_token) is not None]
        return round(sum(spans) / len(spans), 5) if spans else None

    def _note_failure(self, choice: RunningChoice, final: FinalEvent) -> None:
        if choice.openai_finish_reason is None and self.failure is None:
            timeout_s = self.prepared.requests[choice.index].timeout_s
            self.failure = generation_failure(final, timeout_s)
