"""How a load comes along, on standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable


class LoadProgress:
    """A line now and then: at most one every `every` seconds of `clock`, and one at the end.

    Without a label there is none.
    """

    def __init__(
        self, label: str, total: int, clock: Callable[[], float], every: float = 10.0
    ) -> None:
        self._label = label
        self._total = total
        self._clock = clock
        self._every = every
        self._began = self._said = clock()
        self._items = 0
        self._tokens = 0

    def served(self, tokens: int) -> None:
        """One more request is done."""
        self._items += 1
        self._tokens += tokens
        now = self._clock()
        if self._label and (now - self._said >= self._every or self._items == self._total):
            self._said = now
            print(
                f"{self._label}: {self._items}/{self._total} requests, {self._tokens:,} tokens,"
                f" {now - self._began:.0f} s",
                file=sys.stderr,
                flush=True,
            )
