"""Variant selection in the manner of INFaaS (Romero et al., ATC 2021): the cheapest variant that
is accurate and fast enough. Its autoscaling is left out.

Accuracy is a variant's mean over the training prompts, as INFaaS profiles it; latency is its time
per token times the expected answer, longer as its instances' queues are. What no variant fulfils
goes to the fastest of the accurate ones, else to the most accurate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from rbalance.policies.candidates import survivors
from rbalance.policies.policy import NO_INSTANCE, Placements

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rbalance.policies.batch import RequestBatch
    from rbalance.state.instance_state import InstanceState


class Infaas:
    """The policy.

    accuracy: float [M], profiled.
    least: the accuracy that is enough.
    latency_s: the most that an answer should take.
    """

    uses_vectors: ClassVar[bool] = False
    draws: ClassVar[bool] = False

    def __init__(self, accuracy: NDArray[np.float32], least: float, latency_s: float) -> None:
        self._accuracy = accuracy
        self._least = least
        self._latency_s = latency_s

    def decide(self, batch: RequestBatch, state: InstanceState, now: float) -> Placements:
        """The cheapest variant that will do for each request, one after another."""
        view = state.view
        open_to = survivors(batch, state.view)
        load = (view.running + view.waiting).astype(np.float64)
        accuracy = self._accuracy[view.model]
        instance = np.full(len(batch), NO_INSTANCE, np.int32)
        for row in range(len(batch)):
            candidates = np.flatnonzero(open_to[row])
            if not len(candidates):
                continue
            length = batch.predictions.length[row, view.model[candidates]]
            queued = np.maximum(load[candidates] / view.slots[candidates], 1)
            seconds = view.prior_tpot_s[candidates] * length * queued
            cost = (
                batch.prompt_tokens[row] * view.input_price[candidates]
                + length * view.output_price[candidates]
            )
            chosen = candidates[
                cheapest_variant(
                    accuracy[candidates],
                    seconds,
                    cost,
                    load[candidates],
                    self._least,
                    self._latency_s,
                )
            ]
            instance[row] = chosen
            load[chosen] += 1
        return Placements(instance)

    def observe(self, instance: int, tokens: int, seconds: float, now: float) -> None:
        """Nothing is learned."""


def cheapest_variant(
    accuracy: NDArray[np.floating],
    seconds: NDArray[np.floating],
    cost: NDArray[np.floating],
    load: NDArray[np.floating],
    least: float,
    latency_s: float,
) -> int:
    """Which of some candidates: arrays [C]. Among the equally cheap, the least loaded."""
    accurate = accuracy >= least
    good = accurate & (seconds <= latency_s)
    if good.any():
        order = np.lexsort((load, cost, ~good))
    elif accurate.any():
        order = np.lexsort((load, seconds, ~accurate))
    else:
        order = np.lexsort((load, seconds, -accuracy))
    return int(order[0])
