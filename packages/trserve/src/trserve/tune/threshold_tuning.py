"""What `trserve tune` finds out: best thresholds by concurrency, their surroundings, other p."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import msgspec

from trcore import deadlock_free
from trserve.cli.progress import Progress
from trserve.tune.group_throughput import Choice, GroupTraffic, Throughput, alone
from trserve.tune.routing_flow import with_rate

OTHER_RATES = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7)
_SAME_RATE = 0.1
_LARGEST_GRID = 16  # thresholds of one model; of more, some are left out


class Outcome(msgspec.Struct, frozen=True):
    """What `requests` at once get. gain: of best over eager. alone: tokens/s of single models."""

    requests: int
    eager: Choice
    best: Choice
    compared: int
    gain: float
    alone: dict[str, float]
    routing_pays: bool


class OtherRate(msgspec.Struct, frozen=True):
    """Thresholds tuned for one p, used at another.

    loss: of tuned against the best there. gain: of tuned over eager; negative is a loss.
    """

    p: float
    tuned: Choice
    eager: Choice
    best: Choice
    loss: float
    gain: float


class Tuning(msgspec.Struct, frozen=True):
    """outcomes: by concurrency. grid, others: for the largest one.

    grid: with two models, throughput over all thresholds; with more, over those of one model at a
    time, the others' at the optimum.
    """

    outcomes: list[Outcome]
    grid: list[Choice]
    others: list[OtherRate]

    @property
    def recommended(self) -> Choice:
        """For the largest concurrency: with fewer requests thresholds are lowered by themselves."""
        return self.outcomes[-1].best


def tune_thresholds(traffic: GroupTraffic, concurrency: Sequence[int], shown: Progress) -> Tuning:
    """concurrency: sorted."""
    rate = float(f"{traffic.flow.rate:.4g}")  # to be read; p may be tiny
    rates = sorted([rate, *(p for p in OTHER_RATES if abs(p / rate - 1) > _SAME_RATE)])
    shown.started("best thresholds", len(concurrency))
    outcomes = []
    for requests in concurrency:
        throughput = Throughput(traffic, requests)
        outcomes.append(_outcome(traffic, throughput, requests))
        shown.advanced()
    tuned = throughput.best.thresholds
    cells = _cells(tuned, requests)
    shown.started("around them", len(cells))
    grid = []
    for cell in cells:
        grid.append(throughput.of(cell))
        shown.advanced()
    shown.started("other rates", len(rates))
    others = []
    for p in rates:
        there = msgspec.structs.replace(traffic, flow=with_rate(traffic.flow, p))
        others.append(_other_rate(Throughput(there, requests), tuned, p))
        shown.advanced()
    return Tuning(outcomes, grid, others)


def _outcome(traffic: GroupTraffic, throughput: Throughput, requests: int) -> Outcome:
    eager, best = throughput.eager, throughput.best
    single = {model.name: alone(model, requests) for model in traffic.models}
    return Outcome(
        requests=requests,
        eager=eager,
        best=best,
        compared=throughput.compared,
        gain=best.tokens_per_s / eager.tokens_per_s - 1,
        alone=single,
        routing_pays=best.tokens_per_s > single[traffic.models[-1].name],
    )


def _other_rate(there: Throughput, tuned: Sequence[int], p: float) -> OtherRate:
    kept, eager = there.of(tuned), there.eager
    # a search that simulates may miss the best
    best = max(there.best, kept, eager, key=lambda choice: choice.tokens_per_s)
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
