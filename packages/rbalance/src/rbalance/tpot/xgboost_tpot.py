"""TPOT from the instance's state, by the head of its tier."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rbalance.errors import ConfigError
from rbalance.tpot.features import feature_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from rbalance.cluster import Tier
    from rbalance.tpot.heads import TpotHeads
    from rbalance.tpot.model import TpotQuery

MIN_S = 1e-3
SPARE_S = 1.0
"""For numbers without an instance, which nothing is sent to."""


class XgboostTpot:
    """The TpotModel of trained heads: a call of each head for all the instances of its tier."""

    def __init__(self, heads: TpotHeads, tiers: Sequence[str | None]) -> None:
        """tiers: each instance's, None for a spare number. Raises ConfigError: one has no head."""
        self._known = heads
        self._tiers = list(tiers)
        for instance, tier in enumerate(tiers):
            if tier is not None:
                self._check(instance, tier)
        self._assign_heads()

    def place(self, instance: int, tier: Tier) -> None:
        """A new instance has that number: nothing is known of it but its tier."""
        self._check(instance, tier.name)
        self._tiers[instance] = tier.name
        self._assign_heads()

    def seconds(self, query: TpotQuery) -> NDArray[np.float64]:
        """At least 1 ms; the tier's mean where a head's answer is not finite."""
        prompt = np.full(len(query.state), query.prompt, np.float32)
        rows = feature_rows(query.state, prompt, query.predicted)
        found = self._prior.copy()
        for booster, instances in self._heads:
            found[instances] = booster.inplace_predict(rows[instances], validate_features=False)
        return np.maximum(np.where(np.isfinite(found), found, self._prior), MIN_S)

    def observe(self, instance: int, tokens: int, seconds: float, now: float) -> None:
        """Nothing is learned while serving."""

    def _check(self, instance: int, tier: str) -> None:
        known = self._known.boosters
        if tier not in known:
            raise ConfigError(
                f"instances[{instance}].tier",
                f"no TPOT head for {tier!r}; there are {', '.join(sorted(known))}",
            )

    def _assign_heads(self) -> None:
        tiers = dict.fromkeys(tier for tier in self._tiers if tier is not None)
        self._heads = [
            (
                self._known.boosters[tier],
                np.array([at for at, of in enumerate(self._tiers) if of == tier]),
            )
            for tier in tiers
        ]
        self._prior = np.array(
            [
                SPARE_S if tier is None else self._known.quality[tier].static_s
                for tier in self._tiers
            ]
        )
