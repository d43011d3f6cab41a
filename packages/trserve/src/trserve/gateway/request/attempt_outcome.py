"""What one try of a request has come to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trserve.gateway.request.reply import Headers
    from trserve.http.errors import ApiError


class AttemptFailedError(Exception):
    """No byte has gone to the client, so another instance may be tried.

    reason: for metrics. at_fault: it counts against the instance's health. answer: what the client
    gets if nobody else does better.
    """

    def __init__(self, reason: str, answer: ApiError | Stored, *, at_fault: bool = True) -> None:
        super().__init__(reason)
        self.reason = reason
        self.answer = answer
        self.at_fault = at_fault


@dataclass(frozen=True, slots=True)
class Stored:
    """An instance's whole answer."""

    status: int
    headers: Headers
    body: bytes


@dataclass(slots=True)
class Progress:
    """What a try has brought. tokens: as counted by the instance, or of events so far.

    on_tokens: told of tokens so far. stalled_s: seconds that the client did not read. broken: why
    the stream ended too soon.
    """

    on_tokens: Callable[[int], None]
    status: int = 0
    tokens: int = 0
    prompt_tokens: int = 0
    stalled_s: float = 0.0
    broken: str = ""
