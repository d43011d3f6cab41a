"""SGLang's seeded draw, replayed from logits; shares nothing with the engine but the seed."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tests.support.sglang.murmur3 import murmur3
from trsched.engines.sglang.sampling_seed import sampling_seed
from trsched.request import SamplingParams

ROUNDING = 2e-5
"""Logits of the tiny models differ by less from transformers': by 1e-5 at most in 1,536 rows."""


@dataclass(frozen=True, slots=True)
class SeededDraw:
    """margin: logits that all move by less than this, each its own way, draw the same token."""

    token: int
    margin: float


def seeded_draw(
    logits: NDArray[np.float32], sampling: SamplingParams, length: int, model: int
) -> SeededDraw:
    """What model number `model` draws after `length` tokens.

    Noise belongs to a rank, not to a token. So what decides is the winning rank, whose lead depends
    on the sorted logits alone, and which token has that rank, which depends on its neighbours.
    """
    order = np.argsort(-logits, kind="stable")
    ranked = logits[order].astype(np.float64)
    gaps = -np.diff(ranked)
    if sampling.temperature == 0:
        return SeededDraw(int(order[0]), float(gaps[0]) / 2)
    weights = np.exp((ranked - ranked[0]) / sampling.temperature)
    shares = weights / weights.sum()
    before = np.cumsum(shares) - shares
    kept = (np.arange(len(order)) < (sampling.top_k or len(order))) & (before <= sampling.top_p)
    seed = sampling_seed(sampling.seed, model) % (1 << 64)
    scores = np.full(len(order), -np.inf)
    for rank in np.flatnonzero(kept):
        u = murmur3((seed & 0xFFFFFFFF, seed >> 32, length - 1, int(rank))) / 0xFFFFFFFF
        noise = -math.log(-min(math.log(u) if u else -1e308, -(2.0**-32)))
        scores[rank] = math.log(shares[rank]) + noise
    second, first = np.argsort(scores)[-2:]
    lead = sampling.temperature * (scores[first] - scores[second])
    neighbours = gaps[max(first - 1, 0) : first + 1].min()
    # a cumulative share moves by at most margin / (2 × temperature)
    edge = 4 * sampling.temperature * np.abs(before - sampling.top_p).min()
    return SeededDraw(
        int(order[first]),
        float(min(lead, neighbours, edge if sampling.top_p < 1 else np.inf)) / 2,
    )
