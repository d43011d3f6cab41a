"""Random routing at a given rate: the null hypothesis of every router, and a load generator."""

from __future__ import annotations

import numpy as np

from trrouters.base_router import BaseRouter, RouterContext
from trrouters.draws import RETURN_STREAM, ROUTING_STREAM, uniform
from trrouters.peer_req import PeerReq
from trrouters.route_result import Destinations, RouteResult
from trrouters.routed_request import RoutedRequest
from trrouters.threshold_setting import ThresholdSetting


class Bernoulli(BaseRouter):
    """Each token of the small model is replaced by the large model's with probability `p`.

    R2R's flow with a coin for a router: the small model's token is dropped, the large model makes
    `tokens_per_call` tokens and returns all of them. With `q` the flow is R-Stitch's: the large
    model goes on, and hands back after each of its tokens with probability `q`.
    """

    threshold_setting = ThresholdSetting(
        "p", 0.0, 1.0, "The share of its tokens that the small model hands over, at random."
    )

    def __init__(
        self,
        context: RouterContext,
        *,
        p: float = 0.1,
        tokens_per_call: int = 1,
        q: float | None = None,
    ) -> None:
        super().__init__(context)
        for name, value in (("p", p), ("q", 1.0 if q is None else q)):
            if not 0.0 <= value <= 1.0:
                raise ValueError(f"{name} must be a probability, not {value}")
        if tokens_per_call < 1:
            raise ValueError(f"tokens_per_call must be at least 1, not {tokens_per_call}")
        if q is not None and tokens_per_call != 1:
            raise ValueError("q and tokens_per_call both say when the large model hands back")
        self.p = p
        self.q = q
        self.tokens_per_call = tokens_per_call

    def route(self, result: RouteResult) -> Destinations:
        """Draw for each request at the position of the token just made."""
        return np.fromiter(
            (self._leaves(req) for req in result.requests),
            dtype=np.int64,
            count=len(result.requests),
        )

    def send(self, req: RoutedRequest) -> PeerReq:
        """The small model's token is dropped, the large model's kept."""
        return self.hand_off(req, keep_token=self.index == 1)

    def _leaves(self, req: RoutedRequest) -> bool:
        loc = len(req.origin_input_ids) + len(req.output_ids)
        if self.index == 1 and self.q is not None:
            return uniform(req.seed, loc - 1, RETURN_STREAM) < self.q
        if self.index == 1:
            return loc - req.arrived_loc >= self.tokens_per_call
        p = self.p if req.threshold is None else req.threshold
        return uniform(req.seed, loc - 1, ROUTING_STREAM) < p
