"""How far an instance's answer has come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from trserve.http.errors import ApiError


@dataclass(slots=True)
class StreamProgress:
    """What a try has brought so far.

    on_tokens: told of the answer's tokens so far.
    status: the instance's; 0 before it has answered.
    tokens: as counted by the instance, or of events so far.
    prompt_tokens: as counted by the instance; 0: it hasn't said.
    stalled_s: seconds that the client did not read.
    broken: why the answer ended too soon, though it had begun.
    last_word: what the client is still to be told of that.
    """

    on_tokens: Callable[[int], None]
    status: int = 0
    tokens: int = 0
    prompt_tokens: int = 0
    stalled_s: float = 0.0
    broken: str = ""
    last_word: ApiError | None = None
