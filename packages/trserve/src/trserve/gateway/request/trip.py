"""One request through the gateway: what is known of it from its arrival to its end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rbalance import Terms, Weights
    from trserve.gateway.metrics.tracing import RequestSpan
    from trserve.gateway.pool.instance import Instance
    from trserve.gateway.request.ask import Ask
    from trserve.gateway.request.attempt_outcome import AttemptFailedError, Progress
    from trserve.gateway.request.flight import Flight
    from trserve.gateway.request.reply import Reply


@dataclass(slots=True)
class Trip:
    """path: with the query. not_on: instances that may not have it (again). failed, failed_on: the
    last try that failed.

    Of the last decision: instance, terms, weights, decided_at. Of the try at it: progress,
    first_at (its first token), told (tokens that the account has heard of). retried_same: tries
    when the instance that broke off was let try again.
    """

    ask: Ask
    path: str
    headers: dict[str, str]
    flight: Flight
    reply: Reply
    span: RequestSpan
    tries: int = 0
    not_on: tuple[int, ...] = ()
    failed: AttemptFailedError | None = None
    failed_on: Instance | None = None
    retried_same: int = -1
    instance: Instance | None = None
    terms: Terms | None = None
    weights: Weights | None = None
    decided_at: float = 0.0
    progress: Progress | None = None
    first_at: float | None = None
    told: int = 0

    @property
    def tokens(self) -> int:
        """Of prompt and answer, as far as they are known."""
        if self.progress is None:
            return self.ask.prompt_tokens
        return (self.progress.prompt_tokens or self.ask.prompt_tokens) + self.progress.tokens

    def undecided(self) -> None:
        """It is to be decided anew."""
        self.instance = self.progress = self.first_at = self.terms = None
        self.told = 0
