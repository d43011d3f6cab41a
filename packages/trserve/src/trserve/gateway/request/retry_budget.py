"""How many retries are affordable: a share of the requests, so that retries never pile up.

Whether a request is retried is decided next door, in `retry_decision`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RetrySettings:
    """What retries are earned by.

    share: retries earned by each request.
    per_second: earned by time, for when there are few requests.
    most: that can be saved up, and what there is at the start.
    """

    share: float = 0.2
    per_second: float = 1.0
    most: float = 20.0


class RetryBudget:
    """In any span of t seconds with n requests at most n * share + t * per_second + most retries.

    So a pool that fails altogether sees 1 + share times its load, not the number of attempts times.
    Times are seconds of any clock that never goes back.

    Source: Twitter's Finagle, RetryBudget.
    """

    def __init__(self, settings: RetrySettings | None = None) -> None:
        """settings: None: the defaults."""
        self._settings = settings or RetrySettings()
        self._balance = self._settings.most
        self._at: float | None = None

    def change(self, settings: RetrySettings) -> None:
        """Earn by these from now on; what is saved up stays."""
        self._settings = settings

    def requested(self, now: float) -> None:
        """A request came in, itself no retry."""
        self._earn(now, self._settings.share)

    def affords(self, now: float) -> bool:
        """Whether one retry is affordable. Spends nothing."""
        self._earn(now, 0.0)
        return self._balance >= 1

    def spend(self, now: float) -> bool:
        """Whether one retry is affordable; if so, it is paid for."""
        if not self.affords(now):
            return False
        self._balance -= 1
        return True

    def _earn(self, now: float, amount: float) -> None:
        passed = 0.0 if self._at is None else now - self._at
        self._at = now
        earned = amount + passed * self._settings.per_second
        self._balance = min(self._balance + earned, self._settings.most)
