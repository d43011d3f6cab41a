"""One simulated instance: continuous batching with slots, KV memory and prefill.

Running requests write at one common pace, so how far each is follows from one counter, the tokens
that a request running all along would have written. Time passes from event to event, and an event
is a first or a last token, never a token in between.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rbalance.cluster import Tier


@dataclass(frozen=True, slots=True)
class SimulatedAnswer:
    """One answer to be written: `key` is the caller's; tokens of the prompt and of the answer."""

    key: int
    prompt: int
    tokens: int


class SimulatedToken(NamedTuple):
    """`key`'s first token (`last` False) or its last; an answer of one token has both."""

    at: float
    key: int
    last: bool


class SimulatedInstance:
    """Requests wait for a slot and KV memory in order, are read one after another, then decoded.

    Reading prompts comes before decoding and halts it. Time per token is tpot_s · (1 + growth ·
    (running − 1)). KV memory is reserved for the whole answer, so that nobody is preempted; what
    could never fit runs alone.
    """

    def __init__(self, tier: Tier) -> None:
        self._tier = tier
        self._now = 0.0
        self._written = 0.0
        self._order = 0
        self._waiting: deque[SimulatedAnswer] = deque()
        self._reading: deque[tuple[float, SimulatedAnswer]] = deque()
        self._decoding: list[tuple[float, int, SimulatedAnswer]] = []
        self._kv = 0

    @property
    def running(self) -> int:
        """Requests that have a slot."""
        return len(self._reading) + len(self._decoding)

    @property
    def waiting(self) -> int:
        """Requests without one."""
        return len(self._waiting)

    @property
    def kv_usage(self) -> float:
        """Share of KV memory reserved."""
        return self._kv / self._tier.kv_tokens

    def written(self) -> Iterator[tuple[int, int]]:
        """(key, tokens written so far) of each request being decoded, as of the last event."""
        for end, _, sequence in self._decoding:
            yield sequence.key, max(1, int(sequence.tokens - (end - self._written)))

    def submit(self, sequence: SimulatedAnswer, now: float) -> None:
        """Take a request; `advance(now)` must have been called."""
        self._waiting.append(sequence)
        self._admit(now)

    def next_event(self) -> float:
        """When something happens next if nobody is submitted; infinity if nothing does."""
        if self._reading:
            return self._reading[0][0]
        if self._decoding:
            return self._now + (self._decoding[0][0] - self._written) * self._pace()
        return float("inf")

    def advance(self, now: float) -> list[SimulatedToken]:
        """Let time pass until `now`; what happened, in order."""
        events: list[SimulatedToken] = []
        while (at := self.next_event()) <= now:
            self._now = max(at, self._now)
            if self._reading:
                self._begin_decoding(events)
            else:
                self._finish(events)
        if self._decoding and not self._reading:
            self._written += (now - self._now) / self._pace()
        self._now = now
        return events

    def _begin_decoding(self, events: list[SimulatedToken]) -> None:
        _, sequence = self._reading.popleft()
        self._order += 1
        end = self._written + sequence.tokens - 1
        heapq.heappush(self._decoding, (end, self._order, sequence))
        events.append(SimulatedToken(self._now, sequence.key, last=False))

    def _finish(self, events: list[SimulatedToken]) -> None:
        end, _, sequence = heapq.heappop(self._decoding)
        self._written = max(end, self._written)
        self._kv -= self._need(sequence)
        events.append(SimulatedToken(self._now, sequence.key, last=True))
        if not self._decoding:
            self._written = 0.0  # keeps the counter's rounding from growing with the run's length
        self._admit(self._now)

    def _admit(self, now: float) -> None:
        while self._waiting and self.running < self._tier.slots:
            need = self._need(self._waiting[0])
            if self._kv + need > self._tier.kv_tokens and self.running:
                return
            sequence = self._waiting.popleft()
            self._kv += need
            begins = self._reading[-1][0] if self._reading else now
            ends = begins + sequence.prompt / self._tier.prefill_rate
            self._reading.append((ends, sequence))

    def _need(self, sequence: SimulatedAnswer) -> int:
        return min(sequence.prompt + sequence.tokens, self._tier.kv_tokens)

    def _pace(self) -> float:
        return self._tier.tpot_s * (1 + self._tier.growth * (len(self._decoding) - 1))
