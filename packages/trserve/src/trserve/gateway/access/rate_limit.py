"""How much a caller may ask for: a minute's requests and tokens, and requests at the same time."""

from __future__ import annotations

import math
from dataclasses import dataclass

_ROUNDING = 1e-6  # of a minute's worth: that much too little is rounding, and no reason to wait
_CONCURRENCY_RETRY_S = 1.0


class TokenBucket:
    """Holds a minute's worth, starts full, and refills evenly.

    So t minutes see at most t + 1 minutes' worth, and what single requests exceed a minute's worth
    by. Times are seconds of any clock that never goes back.
    """

    def __init__(self, per_minute: float) -> None:
        """per_minute: above 0."""
        self._most = float(per_minute)
        self._held = self._most
        self._at = -math.inf

    def wait(self, now: float, amount: float = 1.0) -> float:
        """Seconds until `take` would succeed, 0 if now. Takes nothing."""
        self._refill(now)
        short = min(amount, self._most) - self._held
        return short * 60.0 / self._most if short > _ROUNDING * self._most else 0.0

    def take(self, now: float, amount: float = 1.0) -> float:
        """Take `amount` and return 0; if it isn't there, take nothing and return the wait.

        More than a minute's worth is taken when the bucket is full, and leaves a debt.
        """
        wait = self.wait(now, amount)
        if wait == 0:
            self._held -= amount
        return wait

    def settle(self, now: float, taken: float, used: float) -> None:
        """Correct what was taken to what was used; that may leave a debt, too."""
        self._refill(now)
        self._held = min(self._held + taken - used, self._most)

    def _refill(self, now: float) -> None:
        passed = now - self._at
        self._at = now
        self._held = min(self._held + passed * self._most / 60.0, self._most)


@dataclass(frozen=True, slots=True)
class KeyLimits:
    """Of one caller. None: no limit."""

    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    concurrency: int | None = None


@dataclass(frozen=True, slots=True)
class LimitReached:
    """Why a request may not pass now.

    limit: the field of KeyLimits that is reached.
    retry_s: seconds until it might pass. For concurrency that is a guess: how long the others will
        run is not known.
    """

    limit: str
    retry_s: float


class RateLimiter:
    """One caller's account. After each `take` without a refusal exactly one `release` must come."""

    def __init__(self, limits: KeyLimits) -> None:
        self._limits = limits
        self._requests = _bucket(limits.requests_per_minute)
        self._tokens = _bucket(limits.tokens_per_minute)
        self.running = 0

    def take(self, now: float, tokens: float) -> LimitReached | None:
        """Account for a request that may use so many tokens; of a refused one nothing is kept."""
        most = self._limits.concurrency
        if most is not None and self.running >= most:
            return LimitReached("concurrency", _CONCURRENCY_RETRY_S)
        requests_s = self._requests.wait(now) if self._requests else 0.0
        tokens_s = self._tokens.wait(now, tokens) if self._tokens else 0.0
        if requests_s or tokens_s:
            name = "requests_per_minute" if requests_s >= tokens_s else "tokens_per_minute"
            return LimitReached(name, max(requests_s, tokens_s))
        if self._requests:
            self._requests.take(now)
        if self._tokens:
            self._tokens.take(now, tokens)
        self.running += 1
        return None

    def release(self, now: float, tokens: float, used: float) -> None:
        """A request is over. tokens: as `take` was told; used: how many it came to."""
        self.running -= 1
        if self._tokens:
            self._tokens.settle(now, tokens, used)

    def change(self, limits: KeyLimits) -> None:
        """Set other limits; what runs still counts, and so does what was used of the same limit."""
        if limits.requests_per_minute != self._limits.requests_per_minute:
            self._requests = _bucket(limits.requests_per_minute)
        if limits.tokens_per_minute != self._limits.tokens_per_minute:
            self._tokens = _bucket(limits.tokens_per_minute)
        self._limits = limits


def _bucket(per_minute: float | None) -> TokenBucket | None:
    return None if per_minute is None else TokenBucket(per_minute)
