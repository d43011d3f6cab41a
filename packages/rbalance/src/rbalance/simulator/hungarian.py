"""Greedy assignment against the best one: each batch's Hungarian matching, offline.

The article replays its decisions so: 15.6 % of assignments differed and quality by −0.002.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from rbalance.errors import MissingExtraError
from rbalance.labels.bootstrap import mean_interval
from rbalance.policies.policy import NO_INSTANCE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rbalance.policies.batch import RequestBatch
    from rbalance.policies.policy import Placements, WeightedPolicy
    from rbalance.simulator.simulation import SimulatedGateway
    from rbalance.simulator.workload import SimulatedWorkload
    from trcore import InstanceView

MOST_ON_ONE = 4
_IMPOSSIBLE = -1e6
_TIE = 1e-9


class MatchingAgreement(msgspec.Struct, frozen=True, kw_only=True):
    """Shares of requests for which the matching chose otherwise: another instance, another model.

    Instances of a model may be in the same state, so the second is what matters.

    requests, batches: how many were compared.
    instance_differs, model_differs: the two shares, 0 to 1.
    quality_delta: what the matching's answers would have scored more, by the labels, with a 95 %
        interval.
    """

    requests: int
    batches: int
    instance_differs: float
    model_differs: float
    quality_delta: float
    quality_low: float
    quality_high: float


@dataclass
class HungarianReplay:
    """`watch` is for Simulation's `decided`; `agreement` sums up."""

    policy: WeightedPolicy
    workload: SimulatedWorkload
    batches: int = 0
    _instance: list[bool] = field(default_factory=list)
    _model: list[bool] = field(default_factory=list)
    _quality: list[float] = field(default_factory=list)

    def watch(self, gateway: SimulatedGateway, rows: list[int], placements: Placements) -> None:
        """Match the same batch on the same view, and compare."""
        view = gateway.state.view
        best = matching(self.policy, self.workload.batch(rows), view)
        self.batches += 1
        for row, greedy, other in zip(rows, placements.instance, best, strict=True):
            if NO_INSTANCE in (greedy, other):
                continue
            models = int(view.model[greedy]), int(view.model[other])
            quality = self.workload.quality[row]
            self._instance.append(bool(greedy != other))
            self._model.append(models[0] != models[1])
            self._quality.append(float(quality[models[1]] - quality[models[0]]))

    def agreement(self) -> MatchingAgreement:
        """Over all requests watched so far; at least one."""
        quality = mean_interval(np.array(self._quality))
        return MatchingAgreement(
            requests=len(self._quality),
            batches=self.batches,
            instance_differs=float(np.mean(self._instance)),
            model_differs=float(np.mean(self._model)),
            quality_delta=quality.mean,
            quality_low=quality.low,
            quality_high=quality.high,
        )


def matching(policy: WeightedPolicy, batch: RequestBatch, view: InstanceView) -> NDArray[np.int32]:
    """int32 [R]: the instances that together have the highest sum of scores; the view is restored.

    Each instance offers places: its k-th is scored as if k of the batch's mean requests had been
    given to it before, as dead reckoning would have it. Equal sums are told apart as the greedy way
    does it: the less loaded and longer not assigned instance for the longer answer.

    Raises MissingExtraError without scipy.
    """
    try:
        from scipy.optimize import linear_sum_assignment
    except ImportError as missing:
        raise MissingExtraError("scipy", "baselines") from missing
    places = min(len(batch), MOST_ON_ONE)
    scores = _scores_by_place(policy, batch, view, places)
    scores -= _tie_break(batch, view, places)
    flat = np.maximum(scores.reshape(len(batch), -1), _IMPOSSIBLE)
    rows, columns = linear_sum_assignment(flat, maximize=True)
    chosen = np.full(len(batch), NO_INSTANCE, np.int32)
    possible = flat[rows, columns] > _IMPOSSIBLE
    chosen[rows[possible]] = columns[possible] % len(view)
    return chosen


def _scores_by_place(
    policy: WeightedPolicy, batch: RequestBatch, view: InstanceView, places: int
) -> NDArray[np.float64]:
    """float64 [R, places, I]; a place loads its instance alone, so that maxima stay."""
    prompt = np.rint(batch.prompt_tokens.mean())
    length = np.rint(batch.predictions.length.mean(axis=0, dtype=np.float64))[view.model]
    scores = np.empty((len(batch), places, len(view)))
    scores[:, 0] = policy.scores(batch, view)
    for at in range(len(view)):
        kept = view.waiting[at], view.pending_decode[at], view.pending_prefill[at]
        try:
            for place in range(1, places):
                view.waiting[at] += 1
                view.pending_decode[at] += length[at]
                view.pending_prefill[at] += prompt
                scores[:, place, at] = policy.scores(batch, view)[:, at]
        finally:
            view.waiting[at], view.pending_decode[at], view.pending_prefill[at] = kept
    return scores


def _tie_break(batch: RequestBatch, view: InstanceView, places: int) -> NDArray[np.float64]:
    """float64 [R, places, I]: next to nothing, the more the later the greedy way would take it."""
    turn = np.empty(len(view))
    turn[np.lexsort((view.last_assigned, view.running + view.waiting))] = np.arange(len(view))
    turns = turn + len(view) * np.arange(places)[:, None]
    longest_first = np.argsort(np.argsort(-batch.predictions.length.mean(axis=1), kind="stable"))
    urgency = 2 - longest_first / len(batch)
    return np.asarray(_TIE * urgency[:, None, None] * turns)
