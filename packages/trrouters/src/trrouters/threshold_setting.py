"""What a router says about the threshold that a request may bring a value of its own for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ThresholdSetting:
    """A setting of a router, from `low` to `high` in a request.

    Attributes:
        name: the keyword of `__init__`, and the attribute that keeps its value.
        low: the smallest value that a request may ask for.
        high: the largest.
        meaning: one sentence for people: what is compared, and in which direction the large model
            gets more tokens.
    """

    name: str
    low: float
    high: float
    meaning: str

    def allows(self, value: float) -> bool:
        """Whether a request may have this value (NaN: no)."""
        return self.low <= value <= self.high
