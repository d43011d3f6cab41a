"""RouteBalance: one score over quality, cost and latency chooses the instance itself (article,
section 3). The scoring is `trcore.assign`'s.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from rbalance.policies.policy import Placements, Prices, WeightedPolicy
from rbalance.tpot.model import TpotQuery
from trcore import AssignRules, assign, prices

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rbalance.policies.batch import RequestBatch
    from rbalance.policies.weights import Weights
    from rbalance.predict.predictions import Prior
    from rbalance.state.instance_state import InstanceState
    from rbalance.tpot.model import TpotModel
    from trcore import Assigned, InstanceView


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreRules:
    """How scores decide.

    quality_norm: `minmax` maps a request's qualities to 0..1 over its candidates.
    order: of a batch: `lpt`, the longest answers first, or as they came.
    on_no_candidate: what becomes of a request whose ceilings no instance meets.
    """

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


class RouteBalance(WeightedPolicy):
    """The policy with weights.

    weights: may be replaced between decisions, as an SLO controller does.
    prior: columns in the order of the state's models.
    tpot: estimates time per token for every number of the state's view; None: the tiers' priors.
    rules: how scores decide.
    """

    uses_vectors: ClassVar[bool] = False
    draws: ClassVar[bool] = False

    def __init__(
        self,
        weights: Weights,
        prior: Prior,
        tpot: TpotModel | None = None,
        rules: ScoreRules = ScoreRules(),
    ) -> None:
        self.weights = weights
        self.prior = prior
        self._tpot = tpot
        self._rules = rules.bound_to(prior)

    def decide(self, batch: RequestBatch, state: InstanceState, now: float) -> Placements:
        """The best-scoring instance for each request; each sees those placed before it.

        Writes its estimates into the view's `tpot_s`, which nothing else reads.
        """
        self._estimate(batch, state, now)
        chosen = np.empty(len(batch), np.int32)
        terms = np.empty((len(batch), 6))
        counted = self._assign(batch, slice(None), state.view, chosen, terms=terms)
        unusable = counted.quality_priors + counted.length_priors + counted.tpot_priors
        return Placements(chosen, relaxed=counted.relaxed, unusable=unusable, terms=terms)

    def scores(self, batch: RequestBatch, view: InstanceView) -> NDArray[np.float64]:
        """float64 [R, I]: each request's scores as if it were alone, -inf where it may not go.

        With the times per token of the last `decide`.
        """
        scores = np.empty((len(batch), len(view)))
        chosen = np.empty(1, np.int32)
        for row in range(len(batch)):
            self._assign(batch, slice(row, row + 1), view, chosen, scores=scores[row : row + 1])
        return scores

    def prices(self, batch: RequestBatch, view: InstanceView) -> Prices:
        """What `decide` finds for the same batch: each request sees those placed before it.

        With the times per token of the last `decide`.
        """
        asked, filters = self._arguments(batch, slice(None), view)
        return Prices(*prices(view, self._rules, *asked, **filters))

    def _assign(
        self,
        batch: RequestBatch,
        rows: slice,
        view: InstanceView,
        chosen: NDArray[np.int32],
        terms: NDArray[np.float64] | None = None,
        scores: NDArray[np.float64] | None = None,
    ) -> Assigned:
        asked, filters = self._arguments(batch, rows, view)
        return assign(
            view,
            self._rules,
            *asked,
            chosen,
            np.empty(len(chosen), np.int32),
            **filters,
            terms=terms,
            scores=scores,
            commit=False,
        )

    def _arguments(
        self, batch: RequestBatch, rows: slice, view: InstanceView
    ) -> tuple[tuple[Any, Any, Any, Any, Any], dict[str, Any]]:
        """Of `trcore.assign`: weights, requests and predictions; what filters by name."""

        def some(column: NDArray[Any] | None) -> NDArray[Any] | None:
            return None if column is None else column[rows]

        asked = (
            self._weights(batch, rows),
            batch.prompt_tokens[rows],
            batch.max_tokens[rows],
            batch.predictions.quality[rows],
            batch.predictions.length[rows],
        )
        filters = {
            "needs": batch.needs[rows],
            "models": some(batch.allowed),
            "instances": some(batch.may_go(len(view))),
            "max_usd": some(batch.max_usd),
            "max_seconds": some(batch.max_seconds),
        }
        return asked, filters

    def _weights(self, batch: RequestBatch, rows: slice) -> NDArray[np.float64] | tuple[float, ...]:
        own = tuple(self.weights)
        if batch.weights is None:
            return own
        asked = batch.weights[rows]
        return np.where(np.isnan(asked), own, asked)

    def observe(self, instance: int, tokens: int, seconds: float, now: float) -> None:
        """The estimates of time per token may learn of it."""
        if self._tpot is not None:
            self._tpot.observe(instance, tokens, seconds, now)

    def _estimate(self, batch: RequestBatch, state: InstanceState, now: float) -> None:
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
