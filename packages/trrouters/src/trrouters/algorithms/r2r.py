"""R2R, "Roads to Rome": only tokens that would change the answer go to the large model.

Fu et al., arXiv 2505.21600, section 4 and appendix A: the network, its inputs and the flow.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from trrouters.algorithms.beside import beside
from trrouters.algorithms.captured_forward import CapturedForward
from trrouters.algorithms.one_token_visits import OneTokenVisits
from trrouters.algorithms.r2r_network import R2RNetwork
from trrouters.algorithms.r2r_scorer import R2RScorer
from trrouters.base_router import RouterContext
from trrouters.checkpoint import check_threshold, load_checkpoint
from trrouters.errors import CheckpointError
from trrouters.route_result import RouteResult
from trrouters.threshold_setting import ThresholdSetting
from trrouters.top_logits import top_logits


class R2R(OneTokenVisits):
    """The small model's token is dropped where it looks divergent; the large one makes one token.

    Args:
        context: where it runs.
        checkpoint: folder of the trained router, `router.json` and `router.safetensors`.
        threshold: θ, hand over where the network's probability of a divergent token is at least
            this; default: the checkpoint's, chosen for its recall.
    """

    threshold_setting = ThresholdSetting(
        "threshold",
        0.0,
        1.0,
        "The large model makes the tokens that look divergent with at least this probability: the "
        "lower, the more.",
    )

    def __init__(
        self, context: RouterContext, *, checkpoint: str, threshold: float | None = None
    ) -> None:
        super().__init__(context)
        if self.index != 0:
            return
        loaded = load_checkpoint(checkpoint, "r2r")
        loaded.check_models(context.models)
        self.needs = frozenset({"logits", "hidden_states", "token_embedding"})
        self.threshold = check_threshold(loaded.threshold if threshold is None else threshold)
        self._network = R2RScorer(cast("R2RNetwork", loaded.build(R2RNetwork)))
        self._scores = CapturedForward(self._forward)
        if self._network.top_k > context.vocab_size:
            raise CheckpointError(
                f"{loaded.source} reads {self._network.top_k} logits, "
                f"the models have {context.vocab_size}"
            )

    @torch.inference_mode()
    def scores(self, result: RouteResult) -> Tensor:
        """Probability that each token is divergent: `[batch]` float32, on the engine's device."""
        seen = result.logits_output
        assert seen.hidden_states is not None  # declared in `needs`, like the two below
        assert seen.token_embeddings is not None
        assert seen.next_token_logits is not None
        beside(self._network, seen.hidden_states)
        return self._scores(seen.hidden_states, seen.token_embeddings, seen.next_token_logits)

    def _forward(self, hidden: Tensor, embeddings: Tensor, logits: Tensor) -> Tensor:
        top = top_logits(logits, self._network.top_k)
        return cast("Tensor", self._network(hidden, embeddings, top).sigmoid())

    def delegates(self, result: RouteResult) -> Tensor:
        """Where the token looks divergent."""
        scores = self.scores(result)
        return scores >= self.thresholds(result, scores)
