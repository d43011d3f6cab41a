"""What this gateway has sent to each instance and not seen end: added at dispatch, corrected as
tokens arrive, and released to the last token.

All amounts are whole numbers, so that what was added can be taken away exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Hashable

    from numpy.typing import NDArray


@dataclass(slots=True)
class DispatchedRequest:
    """One request on one instance; `left` are the output tokens still counted as pending."""

    instance: int
    prompt: int
    predicted: int
    dispatched_at: float
    left: int
    first_at: float = 0.0
    written: int = 0

    @property
    def running(self) -> bool:
        """Its first token has been seen."""
        return self.written > 0


class InFlight:
    """Accounts of `capacity` instances: int64 arrays [capacity], requests or tokens. One thread
    at a time.

    waiting: dispatched, no token seen yet; their prompts make `pending_prefill`.
    running: writing; they hold `context` tokens, `written` of them their own.
    pending_decode: tokens that both kinds are expected to write yet.
    """

    def __init__(self, capacity: int) -> None:
        self.waiting = np.zeros(capacity, np.int64)
        self.running = np.zeros(capacity, np.int64)
        self.pending_prefill = np.zeros(capacity, np.int64)
        self.pending_decode = np.zeros(capacity, np.int64)
        self.context = np.zeros(capacity, np.int64)
        self.written = np.zeros(capacity, np.int64)
        self._requests: dict[Hashable, DispatchedRequest] = {}
        self._waiting: list[dict[Hashable, DispatchedRequest]] = [{} for _ in range(capacity)]
        self._running: list[dict[Hashable, DispatchedRequest]] = [{} for _ in range(capacity)]

    def __len__(self) -> int:
        return len(self._requests)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._requests

    def dispatch(
        self, key: Hashable, instance: int, prompt: int, predicted: float, now: float
    ) -> None:
        """A request goes to an instance, which is expected to write `predicted` tokens (≥ 1).

        Raises ValueError: the key is in flight already.
        """
        if key in self._requests:
            raise ValueError(f"request {key!r} is in flight already")
        tokens = max(1, math.ceil(predicted))
        request = DispatchedRequest(instance, prompt, tokens, now, left=tokens)
        self._requests[key] = self._waiting[instance][key] = request
        self.waiting[instance] += 1
        self.pending_prefill[instance] += prompt
        self.pending_decode[instance] += tokens

    def progress(
        self, key: Hashable, written: int, now: float
    ) -> tuple[DispatchedRequest, int] | None:
        """It has written so many tokens in all; returned with how many of them are news.

        None, and nothing happens, for no more than before or an unknown key. While it runs at least
        one token is left, however wrong the prediction was.
        """
        request = self._requests.get(key)
        if request is None or written <= request.written:
            return None
        at = request.instance
        if not request.running:
            del self._waiting[at][key]
            self._running[at][key] = request
            request.first_at = now
            self.waiting[at] -= 1
            self.running[at] += 1
            self.pending_prefill[at] -= request.prompt
            self.context[at] += request.prompt
        gained = written - request.written
        self.context[at] += gained
        self.written[at] += gained
        left = max(1, request.predicted - written)
        self.pending_decode[at] += left - request.left
        request.left, request.written = left, written
        return request, gained

    def release(self, key: Hashable) -> DispatchedRequest | None:
        """It has ended, well or badly; None if it isn't in flight, as after an earlier release."""
        request = self._requests.pop(key, None)
        if request is None:
            return None
        at = request.instance
        self.pending_decode[at] -= request.left
        if request.running:
            del self._running[at][key]
            self.running[at] -= 1
            self.context[at] -= request.prompt + request.written
            self.written[at] -= request.written
        else:
            del self._waiting[at][key]
            self.waiting[at] -= 1
            self.pending_prefill[at] -= request.prompt
        return request

    def keys_on(self, instance: int) -> tuple[Hashable, ...]:
        """The requests in flight on an instance."""
        return (*self._waiting[instance], *self._running[instance])

    def oldest_waiting(self) -> NDArray[np.float64]:
        """float64 [capacity]: when each one's oldest waiting request was dispatched, NaN if none"""
        return np.array([_oldest(requests) for requests in self._waiting])

    def oldest_running(self) -> NDArray[np.float64]:
        """float64 [capacity]: when each one's oldest running request was dispatched, NaN if none"""
        return np.array([_oldest(requests) for requests in self._running])


def _oldest(requests: dict[Hashable, DispatchedRequest]) -> float:
    """Whoever runs first need not have been dispatched first."""
    return min((request.dispatched_at for request in requests.values()), default=math.nan)
