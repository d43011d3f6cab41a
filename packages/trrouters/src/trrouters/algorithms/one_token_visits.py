"""The flow that R2R, CITER and Co-LLM share: model 1 makes single tokens in model 0's place."""

from __future__ import annotations

import torch
from torch import Tensor

from trrouters.base_router import BaseRouter
from trrouters.peer_req import PeerReq
from trrouters.route_result import Destinations, RouteResult
from trrouters.routed_request import RoutedRequest


class OneTokenVisits(BaseRouter):
    """A token of model 0 that is delegated is dropped; model 1 makes that one and hands back."""

    def delegates(self, result: RouteResult) -> Tensor:
        """Of each token of model 0, whether model 1 is to make it: `[batch]` bool."""
        raise NotImplementedError

    def route(self, result: RouteResult) -> Destinations:
        """Leave model 0 where it delegates; model 1 always hands back."""
        if self.index == 1:
            return torch.ones(len(result.requests), dtype=torch.long)
        return self.delegates(result).long()

    def send(self, req: RoutedRequest) -> PeerReq:
        """Model 0's token is dropped, model 1's stands."""
        return self.hand_off(req, keep_token=self.index == 1)
