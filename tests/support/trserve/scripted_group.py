"""A group whose models say what the test wants: real threads, real deliveries, no models."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from trrouters import BaseRouter, RouterContext
from trrouters.algorithms.bernoulli import Bernoulli
from trsched.errors import GroupUnavailableError, QueueFullError
from trsched.loops.stream import Deliver, Stream
from trsched.models.vocabulary import Vocabulary
from trsched.plan.config import GroupConfig, group_config
from trsched.request import (
    Event,
    FinalEvent,
    FinishReason,
    GenerateRequest,
    TokenEvent,
    TokenLogprobs,
)
from trsched.shared.counters import GroupStatus, SubserverStats
from trsched.shared.step_counters import StepCounters

END = 256
_CONTROL = {"<|start|>": 257, "<|end|>": 258}


class ScriptVocabulary:
    """Bytes, an end token, and two control tokens with names."""

    name = "script"
    size = 259
    fingerprint = "script-1"
    bos_token = "<|start|>"
    eos_token = "<|end|>"
    stop_ids = frozenset({END, 258})
    hidden_size = 0

    def __init__(self, chat_template: str | None = None, context_length: int = 2048) -> None:
        self.chat_template = chat_template
        self.context_length = context_length

    def encode(self, text: str, *, special: bool) -> list[int]:
        ids: list[int] = []
        while text:
            at, name = min(
                ((text.find(name), name) for name in _CONTROL if special and name in text),
                default=(len(text), ""),
            )
            ids += text[:at].encode()
            if name:
                ids.append(_CONTROL[name])
            text = text[at + len(name) :]
        return ids

    def piece(self, token_id: int) -> bytes:
        return bytes([token_id]) if token_id < END else b""


@dataclass
class Reply:
    """What a request gets: text, byte by byte, then the end token and `final`.

    burst: tokens per turn.
    hold_after: tokens after which the models pause until the request is aborted or
        `ScriptedGroup.go_on` is called.
    endless: the text is said again and again.
    """

    text: str | bytes = "Grüße, 世界! 😀"
    final: FinalEvent = field(default_factory=lambda: FinalEvent(reason="stop", handoffs=3))
    burst: int = 1
    hold_after: int | None = None
    endless: bool = False

    def token(self, position: int) -> int:
        raw = self.text.encode() if isinstance(self.text, str) else self.text
        if position < len(raw) or self.endless:
            return raw[position % len(raw)]
        return END


@dataclass
class _Active:
    stream: Stream
    reply: Reply
    position: int = 0


class ScriptedGroup:
    """Models `small` and `large` take turns: token i is by model i % 2."""

    def __init__(
        self, deliver: Deliver, vocabulary: ScriptVocabulary | None = None, context: int = 512
    ) -> None:
        self.config: GroupConfig = group_config(
            {
                "name": "demo",
                "models": [
                    {"engine": "profile", "name": "small", "step_ms": [1.0]},
                    {"engine": "profile", "name": "large", "step_ms": [1.0]},
                ],
                "router": {"name": "bernoulli"},
                "context": context,
            }
        )
        self.vocabulary: Vocabulary = vocabulary or ScriptVocabulary()
        self.router: BaseRouter = Bernoulli(RouterContext(0, 2, self.vocabulary.size))
        self.reply: Callable[[GenerateRequest], Reply] = lambda request: Reply()
        self.requests: list[GenerateRequest] = []
        self.aborts: list[FinishReason] = []
        self.queue_limit = 100
        self.alive = [True, True]
        self.draining = False
        self._deliver = deliver
        self._active: dict[Stream, _Active] = {}
        self._ended: list[tuple[Stream, FinalEvent]] = []
        self._finished: dict[str, int] = {}
        self._going = False
        self._closed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def submit(self, request: GenerateRequest) -> Stream:
        with self._changed:
            if self.draining or not any(self.alive):
                raise GroupUnavailableError("the group is draining")
            if len(self._active) >= self.queue_limit:
                raise QueueFullError("the queue is full")
            stream = Stream(request)
            self.requests.append(request)
            self._active[stream] = _Active(stream, self.reply(request))
            self._changed.notify_all()
        return stream

    def abort(self, stream: Stream, reason: FinishReason = "abort") -> None:
        with self._changed:
            if stream in self._active:
                self.aborts.append(reason)
                self._end(self._active[stream], FinalEvent(reason=reason, handoffs=1))
                self._changed.notify_all()

    def status(self) -> GroupStatus:
        return GroupStatus(
            name=self.config.name,
            queued=0,
            active=len(self._active),
            max_active=8,
            draining=self.draining,
            finished=dict(self._finished),
            subservers=[
                _stats(name, alive)
                for name, alive in zip(("small", "large"), self.alive, strict=True)
            ],
        )

    def go_on(self) -> None:
        with self._changed:
            self._going = True
            self._changed.notify_all()

    def wait_for(self, condition: Callable[[ScriptedGroup], bool], timeout: float = 10) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: condition(self), timeout)

    def end_all(self, reason: FinishReason, error: str | None = None) -> None:
        with self._changed:
            for active in list(self._active.values()):
                self._end(active, FinalEvent(reason=reason, error=error))
            self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join(10)

    def _end(self, active: _Active, final: FinalEvent) -> None:
        del self._active[active.stream]
        self._ended.append((active.stream, final))
        self._finished[final.reason] = self._finished.get(final.reason, 0) + 1

    def _held(self, active: _Active) -> bool:
        after = active.reply.hold_after
        return after is not None and active.position >= after and not self._going

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(self._has_work)
                if self._closed:
                    return
                ready = [a for a in self._active.values() if not self._held(a)]
                batch = [(a.stream, self._turn(a)) for a in ready]
                batch += [(stream, [final]) for stream, final in self._ended]
                self._ended.clear()
                self._changed.notify_all()
            self._deliver(_merged(batch))

    def _has_work(self) -> bool:
        return bool(
            self._closed
            or self._ended
            or any(not self._held(active) for active in self._active.values())
        )

    def _turn(self, active: _Active) -> list[Event]:
        events: list[Event] = []
        request = active.stream.request
        for _ in range(active.reply.burst):
            if self._held(active):
                break
            token_id = active.reply.token(active.position)
            events.append(_token(active.position, token_id, request.sampling.logprobs))
            active.position += 1
            final = None
            if token_id in request.stop_token_ids:
                final = active.reply.final
            elif active.position == request.max_tokens:
                final = FinalEvent(reason="length", handoffs=2)
            if final is not None:
                self._end(active, final)
                break
        return events


def _token(position: int, token_id: int, top: int | None) -> TokenEvent:
    logprobs = None
    if top is not None:
        others = [((token_id + i) % 256, math.log(0.5) - i) for i in range(top)]
        logprobs = TokenLogprobs(logprob=math.log(0.5), top=others)
    return TokenEvent(position=position, token_id=token_id, model=position % 2, logprobs=logprobs)


def _merged(batch: Sequence[tuple[Stream, list[Event]]]) -> list[tuple[Stream, list[Event]]]:
    merged: dict[Stream, list[Event]] = {}
    for stream, events in batch:
        merged.setdefault(stream, []).extend(events)
    return [(stream, events) for stream, events in merged.items() if events]


def _stats(name: str, alive: bool) -> SubserverStats:
    stats = SubserverStats(name, StepCounters(2, 8))
    stats.alive = alive
    return stats
