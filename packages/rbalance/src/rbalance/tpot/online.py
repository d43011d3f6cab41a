"""TPOT as instances showed it lately, falling back to the static prior as that grows old."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rbalance.errors import ConfigError
from rbalance.tpot.static import checked_prior

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from rbalance.cluster import Tier
    from rbalance.tpot.model import TpotQuery

TIME_CONSTANT_S = 5.0
PRIOR_TOKENS = 64.0
LONGEST_S = 1e9


class OnlineTpot:
    """The TpotModel that averages what was observed, newer with more weight.

    The estimate is (p·prior + Σ w·seconds) / (p + Σ w·tokens) with w = exp(-age / time constant):
    an exponentially weighted mean over time, with the prior as p tokens that never age. So an
    instance that was slow under load and has not been used since is not shunned for ever.
    One thread observes and asks.
    """

    def __init__(
        self,
        prior_s: Sequence[float],
        time_constant_s: float = TIME_CONSTANT_S,
        prior_tokens: float = PRIOR_TOKENS,
    ) -> None:
        """prior_s: by instance, seconds per output token; any for a spare number.

        Raises ConfigError for a prior, time constant or weight that isn't above 0.
        """
        self._prior = checked_prior(prior_s)
        for field, value in (
            ("time_constant_s", time_constant_s),
            ("prior_tokens", prior_tokens),
        ):
            if not 0.0 < value < np.inf:
                raise ConfigError(field, f"must be above 0, not {value}")
        self._time_constant = time_constant_s
        self._prior_tokens = prior_tokens
        self._seconds = np.zeros_like(self._prior)  # both as weighted at _at
        self._tokens = np.zeros_like(self._prior)
        self._at = np.full_like(self._prior, -np.inf)

    def place(self, instance: int, tier: Tier) -> None:
        """A new instance has that number: nothing is known of it but its tier."""
        self._prior[instance] = tier.tpot_s
        self._seconds[instance] = self._tokens[instance] = 0.0
        self._at[instance] = -np.inf

    def seconds(self, query: TpotQuery) -> NDArray[np.float64]:
        """The estimates at query.now."""
        kept = self._kept(query.now)
        total = self._prior_tokens * self._prior + kept * self._seconds
        return np.asarray(total / (self._prior_tokens + kept * self._tokens))

    def observe(self, instance: int, tokens: int, seconds: float, now: float) -> None:
        """Count it in; what makes no sense (no token, no time or decades of it) is ignored."""
        if tokens < 1 or not 0.0 < seconds < LONGEST_S:
            return
        kept = self._kept(now)[instance]
        self._seconds[instance] = kept * self._seconds[instance] + seconds
        self._tokens[instance] = kept * self._tokens[instance] + tokens
        self._at[instance] = max(now, self._at[instance])

    def _kept(self, now: float) -> NDArray[np.float64]:
        """[I]: what is left of the weights at `now`; nothing gains weight if time runs back."""
        return np.exp(-np.maximum(now - self._at, 0.0) / self._time_constant)
