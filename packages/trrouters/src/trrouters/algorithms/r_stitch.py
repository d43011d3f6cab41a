"""R-Stitch: uncertain tokens go to the large model, certain ones come back (arXiv 2507.17307)."""

from __future__ import annotations

import math

from trrouters.algorithms.captured_forward import CapturedForward
from trrouters.base_router import BaseRouter, Need, RouterContext
from trrouters.peer_req import PeerReq
from trrouters.route_result import Destinations, RouteResult, Tensor
from trrouters.routed_request import RoutedRequest
from trrouters.threshold_setting import ThresholdSetting


def normalized_entropy(logits: Tensor) -> Tensor:
    """Entropy of softmax(`logits` [batch, vocab]) over its maximum, log vocab: [batch], 0 to 1.

    As log-sum-exp(x) - sum(p x), with one buffer of the logits' size. Halves are added, because the
    order in which torch's `sum` adds a row depends on the batch that the row is in.
    """
    import torch

    terms: Tensor = torch.softmax(logits, dim=-1)
    log_sum_exp = logits.amax(dim=-1) - terms.amax(dim=-1).log()
    terms.mul_(logits).nan_to_num_(nan=0.0)  # a logit of -inf has p = 0
    width = terms.shape[-1]
    while width > 1:
        half = (width + 1) // 2
        terms[:, : width - half] += terms[:, half:width]
        width = half
    return (log_sum_exp - terms[:, 0]) / math.log(logits.shape[-1])


class RStitch(BaseRouter):
    """Model 0 hands over where its normalized entropy exceeds `tau`, model 1 back where it doesn't.

    The small model's uncertain token is always dropped: the large one decodes that position again.
    `keep_return_token` says whether the large model's certain token stands when it returns; when it
    is dropped, the small model decodes that position, except for the first token of a visit, which
    always stands: else two models that disagree on one position would hand it over for ever.

    Args:
        context: where it runs.
        tau: 0.03 in the paper (Qwen-size pairs); above 1 means never hand over, below 0 always.
        keep_return_token: the large model's certain token stands when it returns.
    """

    needs: frozenset[Need] = frozenset({"logits"})
    threshold_setting = ThresholdSetting(
        "tau",
        0.0,
        1.0,
        "The large model takes over where the small one's normalized entropy is above this, and "
        "hands back where its own is not: the lower, the more tokens it makes.",
    )

    def __init__(
        self, context: RouterContext, *, tau: float = 0.03, keep_return_token: bool = True
    ) -> None:
        super().__init__(context)
        if not math.isfinite(tau):
            raise ValueError(f"tau must be a finite number, not {tau}")
        self.tau = tau
        self.keep_return_token = keep_return_token
        self._scores = CapturedForward(normalized_entropy)

    def scores(self, result: RouteResult) -> Tensor:
        """Normalized entropy: `[batch]` float32, on the engine's device."""
        logits = result.logits_output.next_token_logits
        assert logits is not None  # declared in `needs`
        return self._scores(logits)

    def route(self, result: RouteResult) -> Destinations:
        """Leave model 0 when uncertain, model 1 when certain."""
        scores = self.scores(result)
        uncertain = scores > self.thresholds(result, scores)
        return (uncertain if self.index == 0 else ~uncertain).long()

    def send(self, req: RoutedRequest) -> PeerReq:
        """Drop the uncertain token; keep or drop the certain one."""
        if self.index == 0:
            return self.hand_off(req, keep_token=False)
        visit = len(req.origin_input_ids) + len(req.output_ids) - req.arrived_loc
        return self.hand_off(req, keep_token=self.keep_return_token or visit == 1)
