"""RouteBalance: one score over quality, cost and latency chooses the instance itself (article,
section 3). The scoring is `trcore.assign`'s.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from rbalance.policies.policy import Placements
from rbalance.tpot.model import TpotQuery
from trcore import AssignRules, assign

if TYPE_CHECKING:
    from rbalance.batch import Batch
    from rbalance.instance_state import InstanceState
    from rbalance.predictions import Prior
    from rbalance.tpot.model import TpotModel
    from rbalance.weights import Weights


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreRules:
    """See `trcore.AssignRules`, whose arguments these are."""

    quality_norm: Literal["none", "minmax"] = "none"
    order: Literal["lpt", "arrival"] = "lpt"
    on_no_candidate: Literal["fail", "cheapest", "fastest"] = "fail"

    def bound_to(self, prior: Prior) -> AssignRules:
        """With what stands in for predictions that are not finite."""
        return AssignRules(
            prior.quality.tolist(),
            prior.length.tolist(),
            quality_norm=self.quality_norm,
            order=self.order,
            on_no_candidate=self.on_no_candidate,
        )


class RouteBalance:
    """weights may be replaced between decisions, as an SLO controller does.

    tpot: estimates time per token for every number of the state's view; None: the tiers' priors.
    prior: columns in the order of the state's models.
    """

    uses_vectors: ClassVar[bool] = False

    def __init__(
        self,
        weights: Weights,
        prior: Prior,
        tpot: TpotModel | None = None,
        rules: ScoreRules = ScoreRules(),
    ) -> None:
        self.weights = weights
        self._tpot = tpot
        self._rules = rules.bound_to(prior)

    def decide(self, batch: Batch, state: InstanceState, now: float) -> Placements:
        """See Policy. Writes its estimates into the view's `tpot_s`, which nothing else reads."""
        self._estimate(batch, state, now)
        chosen = np.empty(len(batch), np.int32)
        counted = assign(
            state.view,
            self._rules,
            tuple(self.weights),
            batch.prompt_tokens,
            batch.max_tokens,
            batch.predictions.quality,
            batch.predictions.length,
            chosen,
            np.empty(len(batch), np.int32),
            needs=batch.needs,
            models=batch.allowed,
            max_usd=batch.max_usd,
            max_seconds=batch.max_seconds,
            commit=False,
        )
        unusable = counted.quality_priors + counted.length_priors + counted.tpot_priors
        return Placements(chosen, relaxed=counted.relaxed, unusable=unusable)

    def observe(self, instance: int, tokens: int, seconds: float, now: float) -> None:
        """See Policy."""
        if self._tpot is not None:
            self._tpot.observe(instance, tokens, seconds, now)

    def _estimate(self, batch: Batch, state: InstanceState, now: float) -> None:
        view = state.view
        if self._tpot is None:
            view.tpot_s[:] = view.prior_tpot_s
            return
        length = batch.predictions.length.mean(axis=0, dtype=np.float64)
        query = TpotQuery(
            state=state.features(now),
            prompt=float(batch.prompt_tokens.mean()),
            predicted=length[view.model].astype(np.float32),
            now=now,
        )
        view.tpot_s[:] = self._tpot.seconds(query)
