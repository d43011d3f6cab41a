"""What was measured of one request. Times are seconds from the start of the load."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from trserve.bench.client.failure import Failure


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """One request that ended.

    scheduled: when it should have been sent; latencies count from there.
    begun: when the generator got to it.
    sent: when it was given to the connection, later if `--max-in-flight` held it back.
    content_at: float64 times at which content came, one for each chunk that had any.
    output_tokens: None where nobody counted them.
    tokens_from: who did.
    several_choices: streamed side by side (n > 1), so that times between chunks are those of no
        choice.
    status: of HTTP, None if none came.
    failure: None for a complete response.
    """

    number: int
    scheduled: float
    begun: float
    sent: float
    ended: float
    content_at: array[float]
    input_tokens: int | None
    output_tokens: int | None
    tokens_from: Literal["usage", "chunks"] | None
    several_choices: bool
    status: int | None
    finish_reason: str | None
    failure: Failure | None

    @property
    def ttft(self) -> float | None:
        """Seconds to the first content; None without content, or where nothing was streamed."""
        return self.content_at[0] - self.scheduled if self.content_at else None

    @property
    def tpot(self) -> float | None:
        """Mean seconds for each token after the first.

        None with fewer than two tokens, of several choices, and where all came in one chunk: that
        tells no pace.
        """
        if self.several_choices or len(self.content_at) < 2:
            return None
        if self.output_tokens is None or self.output_tokens < 2:
            return None
        return (self.content_at[-1] - self.content_at[0]) / (self.output_tokens - 1)

    @property
    def e2e(self) -> float:
        """Seconds to the end of the response, or to its failure."""
        return self.ended - self.scheduled

    @property
    def lag(self) -> float:
        """Seconds that the generator itself was late."""
        return self.begun - self.scheduled

    @property
    def slot_wait(self) -> float:
        """Seconds that `--max-in-flight` held it back."""
        return self.sent - self.begun

    def gaps(self) -> Iterator[float]:
        """Seconds between a chunk with content and the next (ITL); none of several choices."""
        if self.several_choices:
            return iter(())
        return (later - earlier for earlier, later in pairwise(self.content_at))
