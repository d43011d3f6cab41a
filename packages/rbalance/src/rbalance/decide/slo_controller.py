"""Moves the weights toward latency while a latency target is missed, and back when it is kept.

Beyond the article, whose outlook names it as open.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from rbalance.errors import ConfigError
from rbalance.policies.weights import Weights

RELIEF = Weights(0.0, 0.0, 1.0)
"""Where a controller leads when nothing else helps: latency alone."""
_NEXT_TO_NOTHING = 1e-2  # requests: what is left of one after 46 s, at a window of 10


@dataclass(frozen=True, slots=True, kw_only=True)
class SloSettings:
    """The latency to hold, and how fast weights may move for it.

    target_s: the latency to hold.
    base: the weights while the target is kept.
    relief: the weights that a miss leads to.
    hysteresis: nothing moves within this share around the target.
    rate: how much of the way from `base` to `relief` the weights may move in a second, at most; the
        further off target, the more of it is used. Latency answers late, by as long as requests
        take, so faster than that it overshoots. Back they move at `recovery` of that, so that a
        load near the limit does not make them swing.
    window_s: how far back latencies count, fading.
    """

    target_s: float
    base: Weights
    relief: Weights = RELIEF
    hysteresis: float = 0.1
    rate: float = 0.05
    recovery: float = 0.5
    window_s: float = 10.0

    def __post_init__(self) -> None:
        """Raises ConfigError: a number that cannot be."""
        for name in ("target_s", "rate", "recovery", "window_s"):
            if not 0 < (value := getattr(self, name)) < math.inf:
                raise ConfigError(f"slo.{name}", f"must be above 0, not {value}")
        if not 0 <= self.hysteresis < 1:
            raise ConfigError("slo.hysteresis", f"must be from 0 to below 1, not {self.hysteresis}")


def next_share(share: float, observed_s: float, elapsed_s: float, slo: SloSettings) -> float:
    """The share of the way to relief, 0 to 1, after `elapsed_s` seconds at a latency.

    observed_s: mean of what ended lately; NaN if nothing did: nothing moves.
    """
    off = observed_s / slo.target_s - 1
    if math.isnan(off) or abs(off) <= slo.hysteresis:
        return share
    step = slo.rate * elapsed_s * min(1.0, abs(off))
    return min(1.0, share + step) if off > 0 else max(0.0, share - step * slo.recovery)


class SloController:
    """Keeps the share, and fading sums of the latencies seen."""

    def __init__(self, slo: SloSettings, now: float = 0.0) -> None:
        self._slo = slo
        self._moved_at = now
        self._sum = 0.0
        self._count = 0.0
        self.share = 0.0

    @property
    def weights(self) -> Weights:
        """To be used now."""
        return self._slo.base.toward(self._slo.relief, self.share)

    def rebase(self, base: Weights) -> None:
        """Other weights to start from; the share of the way stays."""
        self._slo = replace(self._slo, base=base)

    def observe(self, latency_s: float) -> None:
        """A request ended after so long."""
        self._sum += latency_s
        self._count += 1

    def move(self, now: float) -> Weights:
        """Adjust by the mean of late; the weights to use from now on."""
        elapsed = now - self._moved_at
        mean = self._sum / self._count if self._count > _NEXT_TO_NOTHING else math.nan
        step_s = min(elapsed, self._slo.window_s)  # what happened before has faded
        self.share = next_share(self.share, mean, step_s, self._slo)
        fade = math.exp(-elapsed / self._slo.window_s)
        self._moved_at, self._sum, self._count = now, self._sum * fade, self._count * fade
        return self.weights
