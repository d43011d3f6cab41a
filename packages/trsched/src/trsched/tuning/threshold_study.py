"""Best thresholds by concurrency, their surroundings, and what they give if routing is different.

What `trserve tune` shows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

import msgspec

from trcore import deadlock_free
from trsched.tuning.group_traffic import GroupTraffic
from trsched.tuning.routing_flow import with_rate
from trsched.tuning.throughput import THOROUGH, Prediction, Throughput

OTHER_RATES = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7)
_SAME_RATE = 0.1
_LARGEST_GRID = 16  # thresholds of one model; of more, some are left out


class ConcurrencyResult(msgspec.Struct, frozen=True):
    """What a number of requests at once get.

    requests: at once.
    eager: with every batch started at once.
    best: with the best thresholds.
    compared: thresholds that `best` is the best of.
    gain: of best over eager.
    alone: tokens a second of single models, by name.
    routing_pays: whether `best` is faster than the last model alone.
    """

    requests: int
    eager: Prediction
    best: Prediction
    compared: int
    gain: float
    alone: dict[str, float]
    routing_pays: bool


class OtherRate(msgspec.Struct, frozen=True):
    """Thresholds tuned for one p, used at another.

    p: the other rate.
    tuned: with these thresholds.
    eager: with every batch started at once.
    best: with the best thresholds there.
    loss: of tuned against best.
    gain: of tuned over eager; negative is a loss.
    """

    p: float
    tuned: Prediction
    eager: Prediction
    best: Prediction
    loss: float
    gain: float


class ThresholdStudy(msgspec.Struct, frozen=True):
    """What there is to know before thresholds are set by hand.

    outcomes: by concurrency.
    grid: for the largest one, with two models, throughput over all thresholds; with more, over
        those of one model at a time, the others' at the optimum.
    others: for the largest one, by p.
    """

    outcomes: list[ConcurrencyResult]
    grid: list[Prediction]
    others: list[OtherRate]

    @property
    def recommended(self) -> Prediction:
        """For the largest concurrency: with fewer requests thresholds are lowered by themselves."""
        return self.outcomes[-1].best


def study_thresholds(
    traffic: GroupTraffic,
    concurrency: Sequence[int],
    started: Callable[[str, int], None] = lambda name, steps: None,
    advanced: Callable[[], None] = lambda: None,
) -> ThresholdStudy:
    """Study each concurrency, from the lowest to the highest.

    started: told of each part of the work, and of how many steps.
    advanced: called after each step.
    """
    rate = float(f"{traffic.flow.rate:.4g}")  # to be read; p may be tiny
    rates = sorted([rate, *(p for p in OTHER_RATES if abs(p / rate - 1) > _SAME_RATE)])
    started("best thresholds", len(concurrency))
    outcomes = []
    for requests in sorted(concurrency):
        throughput = _throughput(traffic, requests)
        outcomes.append(_result(traffic, throughput, requests))
        advanced()
    tuned = throughput.best.thresholds
    cells = _cells(tuned, requests)
    started("around them", len(cells))
    grid = []
    for cell in cells:
        grid.append(throughput.of(cell))
        advanced()
    started("other rates", len(rates))
    others = []
    for p in rates:
        there = msgspec.structs.replace(traffic, flow=with_rate(traffic.flow, p))
        others.append(_other_rate(_throughput(there, requests), tuned, p))
        advanced()
    return ThresholdStudy(outcomes, grid, others)


def _throughput(traffic: GroupTraffic, requests: int) -> Throughput:
    return Throughput(traffic.situation(requests), THOROUGH)


def _result(traffic: GroupTraffic, throughput: Throughput, requests: int) -> ConcurrencyResult:
    eager, best = throughput.eager, throughput.best
    alone = traffic.alone(requests)
    return ConcurrencyResult(
        requests=requests,
        eager=eager,
        best=best,
        compared=throughput.compared,
        gain=best.tokens_per_s / eager.tokens_per_s - 1,
        alone=alone,
        routing_pays=best.tokens_per_s > alone[traffic.models[-1].name],
    )


def _other_rate(there: Throughput, tuned: Sequence[int], p: float) -> OtherRate:
    kept, eager = there.of(tuned), there.eager
    # a search that simulates may miss the best
    best = max(there.best, kept, eager, key=lambda prediction: prediction.tokens_per_s)
    return OtherRate(
        p=p,
        tuned=kept,
        eager=eager,
        best=best,
        loss=1 - kept.tokens_per_s / best.tokens_per_s,
        gain=kept.tokens_per_s / eager.tokens_per_s - 1,
    )


def _cells(best: Sequence[int], requests: int) -> list[list[int]]:
    """Feasible thresholds around the best: all of two models, else a cross through the best."""
    axes = [_axis(b, requests) for b in best]
    if len(best) == 2:
        cells = [list(cell) for cell in product(*axes)]
    else:
        cells = [
            [*best[:model], b, *best[model + 1 :]]
            for model, axis in enumerate(axes)
            for b in axis
            if b != best[model] or model == 0
        ]
    return [cell for cell in cells if deadlock_free(cell, requests)]


def _axis(best: int, requests: int) -> list[int]:
    if requests <= _LARGEST_GRID:
        return list(range(1, requests + 1))
    apart = requests / _LARGEST_GRID
    return sorted({best, *(1 + int(step * apart) for step in range(_LARGEST_GRID))})
