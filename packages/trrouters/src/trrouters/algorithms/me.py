"""ME, mixture-model-like ensemble: a model drawn at random makes each token (arXiv 2605.00419)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from trrouters.base_router import BaseRouter, RouterContext
from trrouters.draws import ROUTING_STREAM, uniform
from trrouters.route_result import Destinations, RouteResult


class MixtureEnsemble(BaseRouter):
    """The model of every token, the first included, is drawn i.i.d. with `weights` (default equal).

    The drawn model's token always stands, so what is sampled is exactly a token of the mixture.
    Models that were not drawn catch up when they are.
    """

    models: ClassVar[tuple[int, int | None]] = (2, None)
    degradable: ClassVar[bool] = False  # an ensemble without a member is another distribution

    def __init__(self, context: RouterContext, *, weights: Sequence[float] | None = None) -> None:
        super().__init__(context)
        given = [1.0] * context.n_models if weights is None else [float(w) for w in weights]
        if len(given) != context.n_models:
            raise ValueError(f"weights must have {context.n_models} entries, not {len(given)}")
        if not all(math.isfinite(w) and w >= 0 for w in given) or sum(given) <= 0:
            raise ValueError(f"weights must be non-negative and not all zero, not {given}")
        self._cumulative = np.cumsum(given) / np.sum(given)
        self._last = max(i for i, w in enumerate(given) if w > 0)

    def entry(self, seed: int) -> int:
        """The model drawn for the first token."""
        return self._draw(seed, 0)

    def route(self, result: RouteResult) -> Destinations:
        """The model drawn for the token after the one just made."""
        draws = (self.peer_of(self._draw(req.seed, len(req.output_ids))) for req in result.requests)
        return np.fromiter(draws, dtype=np.int64, count=len(result.requests))

    def _draw(self, seed: int, output_position: int) -> int:
        u = uniform(seed, output_position, ROUTING_STREAM)
        return min(int(np.searchsorted(self._cumulative, u, side="right")), self._last)
