"""B of every model as a function of N, the requests now active."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from trcore import effective_thresholds


class Thresholds(Protocol):
    """Read by every subserver at every turn."""

    def at(self, active: int) -> Sequence[int]:
        """Thresholds, a model each, with which `active` requests cannot deadlock."""


class FixedThresholds:
    """As configured, lowered where few requests are active."""

    def __init__(self, configured: Sequence[int]) -> None:
        self._configured = tuple(configured)
        self._effective: dict[int, Sequence[int]] = {}

    def at(self, active: int) -> Sequence[int]:
        """See `Thresholds`."""
        found = self._effective.get(active)
        if found is None:
            found = self._effective[active] = effective_thresholds(self._configured, active)
        return found


class TunedThresholds:
    """As the tuner found them; for an N that it hasn't come to, those of the next N below.

    Written by the tuner's thread, read by the subservers': both replace whole objects only.
    """

    def __init__(self, start: Sequence[int]) -> None:
        self._start = tuple(start)
        self._found: dict[int, tuple[int, ...]] = {}
        self._effective: dict[int, Sequence[int]] = {}

    def at(self, active: int) -> Sequence[int]:
        """See `Thresholds`."""
        effective = self._effective  # as it is now: `replace` may put another in its place
        known = effective.get(active)
        if known is None:
            found = self._found  # likewise
            nearest = max((n for n in found if n <= active), default=None)
            thresholds = self._start if nearest is None else found[nearest]
            known = effective[active] = effective_thresholds(thresholds, active)
        return known

    def replace(self, found: Mapping[int, tuple[int, ...]]) -> None:
        """From now on these, by N."""
        self._found = dict(found)
        self._effective = {}
