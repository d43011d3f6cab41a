"""TPOT as a constant of each instance."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rbalance.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from rbalance.cluster import Tier
    from rbalance.tpot.model import TpotQuery


class StaticTpot:
    """The TpotModel that knows each instance's tier and nothing else."""

    def __init__(self, prior_s: Sequence[float]) -> None:
        """Take seconds per output token, by instance; any for a spare number.

        Raises ConfigError if one isn't above 0.
        """
        self._prior = checked_prior(prior_s)

    def place(self, instance: int, tier: Tier) -> None:
        """A new instance has that number: nothing is known of it but its tier."""
        self._prior[instance] = tier.tpot_s

    def seconds(self, query: TpotQuery) -> NDArray[np.float64]:
        """The prior, whatever the state; an array of the caller's own."""
        del query
        return self._prior.copy()

    def observe(self, instance: int, tokens: int, seconds: float, now: float) -> None:
        """Nothing is learned."""


def checked_prior(prior_s: Sequence[float]) -> NDArray[np.float64]:
    """float64 [I], seconds. Raises ConfigError naming an instance without a time above 0."""
    prior = np.array(prior_s, np.float64)
    for instance, seconds in enumerate(prior):
        if not 0.0 < seconds < np.inf:
            raise ConfigError(f"tpot_s[{instance}]", f"must be above 0, not {seconds}")
    return prior
