"""What a decision weighs: quality, cost and latency, shares of 1 (article, section 3, S(r,i))."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rbalance.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

_SUM_TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True)
class Weights:
    """Three shares, none negative, that sum to 1."""

    quality: float
    cost: float
    latency: float

    def __post_init__(self) -> None:
        """Raises ConfigError naming the share that is wrong, or all when their sum is."""
        for name in ("quality", "cost", "latency"):
            if not 0 <= (share := getattr(self, name)) <= 1:
                raise ConfigError(f"weights.{name}", f"must be from 0 to 1, not {share}")
        if abs((total := math.fsum(self)) - 1) > _SUM_TOLERANCE:
            raise ConfigError("weights", f"quality, cost and latency sum to {total:.6g}, not 1")

    def __iter__(self) -> Iterator[float]:
        return iter((self.quality, self.cost, self.latency))

    def toward(self, other: Weights, share: float) -> Weights:
        """The vector that lies `share` (0 to 1) of the way to another."""
        quality, cost = (
            one + (two - one) * share
            for one, two in ((self.quality, other.quality), (self.cost, other.cost))
        )
        return Weights(quality, cost, max(0.0, 1 - quality - cost))


PRESETS = {
    "quality": Weights(0.8, 0.1, 0.1),
    "balanced": Weights(0.5, 0.2, 0.3),
    "latency": Weights(0.1, 0.1, 0.8),
    "cost": Weights(0.1, 0.8, 0.1),
    "uniform": Weights(1 / 3, 1 / 3, 1 / 3),
}


def parse_weights(text: str) -> Weights:
    """A preset's name, or three numbers: "0.6/0.2/0.2" for quality, cost and latency.

    Raises ConfigError: neither, or numbers that are no weights.
    """
    if text in PRESETS:
        return PRESETS[text]
    try:
        quality, cost, latency = map(float, text.split("/"))
    except ValueError:
        raise ConfigError(
            "weights", f"{text!r} is neither three numbers nor one of {', '.join(PRESETS)}"
        ) from None
    return Weights(quality, cost, latency)
