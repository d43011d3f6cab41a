"""From logits to a token: a pure function of one row, its parameters and one uniform draw.

Rows are handled one by one, so a token never depends on what else is in the batch.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trrouters.draws import uniform
from trsched.request import SamplingParams, TokenLogprobs

_BLOCK = 256
_FIRST_CANDIDATES = 512


def sample(logits: NDArray[np.float32], params: SamplingParams, position: int, model: int) -> int:
    """The token of a request at `position` under model number `model`.

    logits: `[vocab]` float32. The draw depends on (seed, position, model) only.
    """
    temperature = np.float32(params.temperature)
    if temperature == 0.0:
        return int(logits.argmax())
    u = uniform(params.seed, position, model)
    with np.errstate(over="ignore"):  # a weight of 0 is as good
        scaled = (logits - logits.max()) / temperature
    if params.top_k == 0 and params.top_p >= 1.0:
        return _inverse_cdf(np.exp(scaled), u)
    ids, weights = _filtered(scaled, params.top_k, params.top_p)
    cumulative = np.cumsum(weights, dtype=np.float64)
    index = int(np.searchsorted(cumulative, u * cumulative[-1], side="right"))
    return int(ids[min(index, len(ids) - 1)])


def token_logprobs(logits: NDArray[np.float32], token_id: int, top: int) -> TokenLogprobs:
    """Log-probability of `token_id` and of the `top` likeliest tokens; logits: `[vocab]`."""
    row = logits.astype(np.float64)
    peak = row.max()
    norm = peak + np.log(np.exp(row - peak).sum())
    best: list[tuple[int, float]] = []
    top = min(top, len(row))
    if top:
        ids = np.argpartition(-row, top - 1)[:top]
        ids = ids[np.lexsort((ids, -row[ids]))]
        best = [(int(i), float(row[i] - norm)) for i in ids]
    return TokenLogprobs(float(row[token_id] - norm), best)


def _inverse_cdf(weights: NDArray[np.float32], u: float) -> int:
    """Index i with cumulative(i-1) ≤ u·total < cumulative(i), through sums of blocks (one pass)."""
    full = len(weights) // _BLOCK * _BLOCK
    sums = weights[:full].reshape(-1, _BLOCK).sum(axis=1, dtype=np.float64)
    tail = weights[full:].sum(dtype=np.float64)
    edges = np.cumsum(np.append(sums, tail))
    target = u * edges[-1]
    block = min(int(np.searchsorted(edges, target, side="right")), len(edges) - 1)
    start = block * _BLOCK
    inside = np.cumsum(weights[start : start + _BLOCK], dtype=np.float64)
    offset = target - (edges[block - 1] if block else 0.0)
    index = int(np.searchsorted(inside, offset, side="right"))
    if index < len(inside) and weights[start + index] > 0:
        return start + index
    # Rounding put the target on the edge of what is possible: the nearest possible token before it.
    possible = np.flatnonzero(weights[: start + min(index, len(inside) - 1) + 1])
    return int(possible[-1]) if len(possible) else int(weights.argmax())


def _filtered(
    scaled: NDArray[np.float32], top_k: int, top_p: float
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Token ids kept by top-k, then top-p, likeliest first (ties: lower id), and their weights."""
    vocab = len(scaled)
    count = min(top_k, vocab) if top_k else vocab
    if count == vocab and vocab > _FIRST_CANDIDATES:
        # Nearly always the nucleus lies within the first few hundred tokens: no full sort then.
        total = np.exp(scaled.astype(np.float64)).sum()
        ids, weights = _largest(scaled, _FIRST_CANDIDATES)
        if weights.sum() < top_p * total:
            ids, weights = _largest(scaled, vocab)
    else:
        ids, weights = _largest(scaled, count)
        total = weights.sum()
    before = np.cumsum(weights) - weights
    kept = max(1, int(np.searchsorted(before, top_p * total, side="left")))
    return ids[:kept], weights[:kept]


def _largest(
    scaled: NDArray[np.float32], count: int
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    if count < len(scaled):
        edge = np.partition(scaled, len(scaled) - count)[len(scaled) - count]
        above = np.flatnonzero(scaled > edge)
        ties = np.flatnonzero(scaled == edge)[: count - len(above)]
        ids = np.concatenate([above, ties])
    else:
        ids = np.arange(len(scaled))
    ids = ids[np.lexsort((ids, -scaled[ids]))]
    return ids, np.exp(scaled[ids].astype(np.float64))
