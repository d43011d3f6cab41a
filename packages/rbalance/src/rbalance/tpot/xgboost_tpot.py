"""TPOT from the instance's state, by the head of its tier."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rbalance.errors import ConfigError
from rbalance.tpot.features import feature_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from rbalance.tpot.heads import TpotHeads
    from rbalance.tpot.model import TpotQuery

MIN_S = 1e-3


class XgboostTpot:
    """The TpotModel of trained heads: a call of each head for all the instances of its tier."""

    def __init__(self, heads: TpotHeads, tiers: Sequence[str]) -> None:
        """tiers: each instance's. Raises ConfigError for a tier without a head."""
        for instance, tier in enumerate(tiers):
            if tier not in heads.boosters:
                raise ConfigError(
                    f"instances[{instance}].tier",
                    f"no TPOT head for {tier!r}; there are {', '.join(sorted(heads.boosters))}",
                )
        self._heads = [
            (heads.boosters[tier], np.array([at for at, of in enumerate(tiers) if of == tier]))
            for tier in dict.fromkeys(tiers)
        ]
        self._prior = np.array([heads.quality[tier].static_s for tier in tiers])

    def seconds(self, query: TpotQuery) -> NDArray[np.float64]:
        """At least 1 ms; the tier's mean where a head's answer is not finite."""
        prompt = np.full(len(query.state), query.prompt, np.float32)
        rows = feature_rows(query.state, prompt, query.predicted)
        found = np.empty(len(rows), np.float64)
        for booster, instances in self._heads:
            found[instances] = booster.inplace_predict(rows[instances], validate_features=False)
        return np.maximum(np.where(np.isfinite(found), found, self._prior), MIN_S)

    def observe(self, instance: int, tokens: int, seconds: float, now: float) -> None:
        """Nothing is learned while serving."""
