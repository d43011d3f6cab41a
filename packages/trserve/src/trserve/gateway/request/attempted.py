"""What has come of a request so far: of its last round, and of all tries before."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trserve.gateway.pool.instance import Instance
    from trserve.gateway.request.decision import Decision
    from trserve.gateway.upstream.stored_answer import StoredAnswer
    from trserve.http.errors import ApiError


class RoundOutcome(Enum):
    """Of one round: a decision, and mostly a try at the instance that it names."""

    ANSWERED = "the client has got what there was, whole or not"
    STOPPED = "the client left, or time is over"
    NOT_TRIED = "the instance was gone by then, or is being probed"
    WITHDRAWN = "the instance went before it had begun to answer"
    NOBODY = "no instance may take it"
    FAILED = "no usable answer, and nothing of it has reached the client"
    BROKEN = "the same: the connection broke off, or nothing came"
    TOO_LONG = "the same: the instance found the prompt too long"


FAILURES = (RoundOutcome.FAILED, RoundOutcome.BROKEN, RoundOutcome.TOO_LONG)

_OF_REASON = {
    "broken": RoundOutcome.BROKEN,
    "empty": RoundOutcome.BROKEN,
    "context": RoundOutcome.TOO_LONG,
}


class AttemptFailedError(Exception):
    """No byte has gone to the client, so another instance may be tried."""

    def __init__(
        self, reason: str, answer: ApiError | StoredAnswer, *, at_fault: bool = True
    ) -> None:
        """reason: for metrics, a word of a small vocabulary.

        answer: what the client gets if nobody else does better.
        at_fault: it counts against the instance's health.
        """
        super().__init__(reason)
        self.reason = reason
        self.answer = answer
        self.at_fault = at_fault

    @property
    def outcome(self) -> RoundOutcome:
        """Which kind of failure it is."""
        return _OF_REASON.get(self.reason, RoundOutcome.FAILED)


@dataclass(frozen=True, slots=True)
class Attempted:
    """One round, over.

    outcome: in a word.
    decision: None: there was none.
    sent: the request was sent to the instance.
    reason: of a failure, for metrics.
    answer: what the client gets if nothing more is tried; None: it has its answer, or has left.
    broken: why an answer that had begun ended too soon.
    prompt_tokens: as the instance counted them; 0: it didn't say.
    tokens: of the answer.
    first_at: when its first token came, the event loop's time; None: none did.
    """

    outcome: RoundOutcome
    decision: Decision | None = None
    sent: bool = False
    reason: str = ""
    answer: ApiError | StoredAnswer | None = None
    broken: str = ""
    prompt_tokens: int = 0
    tokens: int = 0
    first_at: float | None = None

    @property
    def instance(self) -> Instance:
        """Of its decision, which there must be."""
        assert self.decision is not None
        return self.decision.instance


@dataclass(frozen=True, slots=True)
class Tries:
    """All rounds of one request so far.

    count: tries that were sent to an instance.
    not_on: numbers of instances that may not have it (again).
    last: the last round; None: there was none.
    failed: the last one that failed.
    here_again: since the last try, the instance that broke off has been let try again.
    """

    count: int = 0
    not_on: tuple[int, ...] = ()
    last: Attempted | None = None
    failed: Attempted | None = None
    here_again: bool = False

    @property
    def failed_for(self) -> str | None:
        """Why the last one that failed did; None: none did."""
        return None if self.failed is None else self.failed.reason

    def after(self, attempted: Attempted) -> Tries:
        """With one round more."""
        not_on = self.not_on
        if attempted.outcome is RoundOutcome.NOT_TRIED and attempted.decision is not None:
            not_on += (attempted.decision.instance.number,)
        return Tries(
            count=self.count + attempted.sent,
            not_on=not_on,
            last=attempted,
            failed=attempted if attempted.outcome in FAILURES else self.failed,
            here_again=self.here_again and not attempted.sent,
        )

    def elsewhere(self, not_on: Iterable[int]) -> Tries:
        """Nor on these from now on."""
        return replace(self, not_on=(*self.not_on, *not_on))

    def here(self) -> Tries:
        """On any instance, also where it has failed."""
        return replace(self, not_on=(), here_again=True)

    def tokens(self, prompt_tokens: int) -> int:
        """Of prompt and answer, as far as known. prompt_tokens: as estimated."""
        if self.last is None:
            return prompt_tokens
        return (self.last.prompt_tokens or prompt_tokens) + self.last.tokens
