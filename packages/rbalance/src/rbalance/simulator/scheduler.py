"""How a policy is deployed: when its batches start, how long they take to decide, how many at once.

The figures of the presets are of three kinds. `batched`: MiniLM in bfloat16 and an exact search
among 14,919 prompts, as measured on two cores. `serial`: 77 ms a prompt, which is what the
article's 49.5 and 64.2 s at 24 and 30 requests a second amount to if a queue builds up over 2,640
of them. The others vary those: they are assumptions and say so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from rbalance.decide.batching import AdaptiveSizing, BatchLimits, BatchSizing, FixedSizing

SERIAL_S = 0.077


@dataclass(frozen=True, slots=True)
class DecisionTime:
    """Seconds for a batch of n: linear between the points (n, seconds), and beyond the last."""

    points: tuple[tuple[int, float], ...]

    def seconds(self, n: int) -> float:
        """For a batch of n requests."""
        sizes, times = zip(*self.points, strict=True)
        if n <= sizes[-1] or len(sizes) == 1:
            return float(np.interp(n, sizes, times))
        slope = (times[-1] - times[-2]) / (sizes[-1] - sizes[-2])
        return float(times[-1] + slope * (n - sizes[-1]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduler:
    """A deployment: its batches and how long they take.

    sizing: when a batch starts, and how large it may be.
    time: how long a batch takes to decide.
    deciders: batches decided at once.
    timeout_s: since a batch's first arrival; what is not decided then is decided without
        predictions.
    measured: the policy's own code counts too, by the wall clock.
    """

    sizing: BatchSizing
    time: DecisionTime
    deciders: int = 1
    timeout_s: float = math.inf
    measured: bool = False


_ONE = FixedSizing(BatchLimits(1, 0.0))
EMBED_AND_SEARCH = DecisionTime(((1, 0.0055), (8, 0.0168), (32, 0.0600)))

DEPLOYMENTS = {
    "instant": Scheduler(sizing=_ONE, time=DecisionTime(((1, 0.0),))),
    "batched": Scheduler(sizing=AdaptiveSizing(), time=EMBED_AND_SEARCH, timeout_s=1.0),
    "serial": Scheduler(sizing=_ONE, time=DecisionTime(((1, SERIAL_S),))),
    # assumption: a further prompt in a batch takes half as long as the first
    "micro-batched": Scheduler(
        sizing=FixedSizing(BatchLimits(64, 0.010)),
        time=DecisionTime(((1, SERIAL_S), (64, SERIAL_S * (1 + 63 / 2)))),
    ),
    # assumption: enough accelerators that prompts do not slow each other
    "concurrent": Scheduler(sizing=_ONE, time=DecisionTime(((1, SERIAL_S),)), deciders=16),
    # the article: the service saturates from 18 requests a second; its client waits for 2 s
    "external": Scheduler(sizing=_ONE, time=DecisionTime(((1, 1 / 18),)), timeout_s=2.0),
}
