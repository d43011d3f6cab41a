"""What the balancer is told of one request: its tokens as they come, and that it is over."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from trserve.gateway.pool.balancing import Balancing

_TELL_EVERY = 16  # tokens: so often the balancer hears how many there are


class DispatchAccount:
    """Opened before a decision, which dispatches under its key; to be closed whatever happens.

    key: the request's in the balancer.
    on_first_token: called once.
    first_at: when the first token came, the clock's seconds; None: none has come.
    """

    __slots__ = ("_balancing", "_clock", "_told", "first_at", "key", "on_first_token")

    def __init__(self, key: int, balancing: Balancing, clock: Callable[[], float]) -> None:
        self.key = key
        self.on_first_token: Callable[[], None] | None = None
        self.first_at: float | None = None
        self._balancing = balancing
        self._clock = clock
        self._told = 0

    @property
    def dispatched(self) -> bool:
        """It counts at an instance; no more once that has been removed."""
        return self.key in self._balancing.state.in_flight

    def wrote(self, tokens: int) -> None:
        """The answer has so many tokens by now."""
        if not tokens:  # comments, which servers send while a request waits
            return
        if self.first_at is None or tokens - self._told >= _TELL_EVERY:
            now = self._clock()
            if self.first_at is None:
                self.first_at = now
                if self.on_first_token is not None:
                    self.on_first_token()
            self._told = tokens
            self._balancing.state.progress(self.key, tokens, now)

    def close(self, tokens: int, stalled_s: float) -> None:
        """Take back exactly what the decision added, however the request ended.

        tokens: of the whole answer. stalled_s: seconds that its client did not read.
        """
        now = self._clock()
        state, first_at = self._balancing.state, self.first_at
        if first_at is not None:
            state.progress(self.key, tokens, now)
        ended = state.release(self.key, now)
        if ended is not None and ended.written > 1 and first_at is not None:
            seconds = now - first_at - stalled_s
            self._balancing.policy.observe(ended.instance, ended.written - 1, seconds, now)
