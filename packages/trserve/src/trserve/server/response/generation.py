"""The running requests behind one HTTP request, from submission to the last event."""

from __future__ import annotations

import time
from collections.abc import Collection

import structlog

from trsched.errors import RequestError
from trsched.loops.stream import Stream
from trserve.http.errors import ApiError, from_request_error
from trserve.server.bridge import Inbox
from trserve.server.response.choice import Choice
from trserve.server.response.order import Order
from trserve.server.serving import Serving

_log = structlog.get_logger("trserve")


class Generation:
    """`start`, then `turn` until `done`, `failure` or `gone`; `close` in any case.

    failure: why the response cannot be completed. gone: the client has left.
    """

    def __init__(self, serving: Serving, order: Order) -> None:
        self.serving = serving
        self.order = order
        self.choices = [
            Choice(i, serving.tokenizer, order.stops, len(serving.models))
            for i in range(len(order.requests))
        ]
        self.failure: ApiError | None = None
        self.gone = False
        self._running: dict[Stream, Choice] = {}
        self._inbox = Inbox()
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
        for choice, request in zip(self.choices, self.order.requests, strict=True):
            try:
                stream = self.serving.group.submit(request)
            except RequestError as error:
                self._abort()
                raise from_request_error(error, self.order.prompt_param) from error
            self._running[stream] = choice
            self.serving.bridge.register(stream, self._inbox)

    async def turn(self) -> list[Choice]:
        """Wait for events; the choices that have something new, each once."""
        batch = await self._inbox.get()
        if self.gone:
            return []
        now = time.perf_counter()
        changed = []
        for stream, events in batch:
            choice = self._running[stream]
            stopped = choice.stopped
            choice.receive(events, now)
            if choice.final is not None:
                del self._running[stream]
                self._note_failure(choice)
            elif choice.stopped and not stopped:
                self.serving.group.abort(stream, "stop")
            if choice not in changed:
                changed.append(choice)
        return changed

    def leave(self) -> None:
        """The client has gone: end its requests at once."""
        self.gone = True
        self._abort()
        self._inbox.close()

    def close(self) -> None:
        """End what still runs, count and log."""
        self._abort()
        seconds = time.perf_counter() - self._started_at
        first = min((c.first_at for c in self.choices if c.first_at is not None), default=None)
        ttft = None if first is None else first - self._started_at
        self.serving.metrics.finished(self.order.prompt_tokens, self.choices, seconds, ttft)
        _log.info(
            "request finished",
            request_id=self.order.request_id,
            response_id=self.order.id,
            model=self.order.model,
            finish=",".join(sorted({str(c.finish_reason or "abort") for c in self.choices})),
            prompt_tokens=self.order.prompt_tokens,
            completion_tokens=sum(choice.token_count for choice in self.choices),
            handoffs=sum(c.final.handoffs for c in self.choices if c.final is not None),
            ttft_s=None if ttft is None else round(ttft, 4),
            tpot_s=self._seconds_per_token(),
            seconds=round(seconds, 4),
        )

    def _abort(self) -> None:
        for stream in self._running:
            self.serving.bridge.forget(stream)
            self.serving.group.abort(stream, "abort")
        self._running.clear()

    def _seconds_per_token(self) -> float | None:
        spans = [time for choice in self.choices if (time := choice.seconds_per_token) is not None]
        return round(sum(spans) / len(spans), 5) if spans else None

    def _note_failure(self, choice: Choice) -> None:
        if choice.final is None or choice.good_end or self.failure is not None:
            return
        match choice.final.reason:
            case "deadline":
                timeout = self.order.requests[choice.index].timeout_s
                message = f"The answer was not complete after {timeout:g} seconds."
                self.failure = ApiError(504, message, code="timeout")
            case "shutdown":
                message = "The server is shutting down; try again later."
                headers = {"retry-after": "5"}
                self.failure = ApiError(503, message, code="shutdown", headers=headers)
            case "abort":
                self.failure = ApiError(500, "The server ended the request.", code="aborted")
            case _:
                message = f"The models failed: {choice.final.error or 'no reason given'}"
                self.failure = ApiError(500, message, code="engine_error")
