"""Co-LLM: the base model itself says where the assistant should speak (arXiv 2403.03870)."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from trrouters.algorithms.beside import beside
from trrouters.algorithms.captured_forward import CapturedForward
from trrouters.algorithms.one_token_visits import OneTokenVisits
from trrouters.base_router import RouterContext
from trrouters.checkpoint import check_sizes, check_threshold, load_checkpoint
from trrouters.route_result import RouteResult
from trrouters.threshold_setting import ThresholdSetting


class DeferralHead(nn.Module):
    """One row of an LM head: hidden state `[batch, hidden_size]` → deferral logit `[batch]`."""

    def __init__(self, hidden_size: int) -> None:
        super().__init__()
        check_sizes(hidden_size=hidden_size)
        self.row = nn.Linear(hidden_size, 1)

    def forward(self, hidden: Tensor) -> Tensor:
        """`[batch, hidden_size]` → `[batch]`."""
        return cast("Tensor", self.row(hidden).squeeze(-1))


class CoLlm(OneTokenVisits):
    """The base's token is dropped where its deferral probability exceeds η; the assistant makes it.

    Args:
        context: where it runs.
        checkpoint: folder of a trained deferral head, `router.json` and `router.safetensors`;
            without one, the base model's own LM head has the deferral row as its last
            (`deferral_row: true` in the model's configuration).
        threshold: η, needed without a checkpoint; default: the checkpoint's.
        tokens_per_call: in the authors' code the base is asked for so many tokens at once and they
            are cut off at the first deferral; here every token is looked at as it is made, which
            is the same for any value and wastes none. Accepted so that their settings can be used
            unchanged.
    """

    threshold_setting = ThresholdSetting(
        "threshold",
        0.0,
        1.0,
        "The large model makes the tokens whose deferral probability is above this: the lower, the "
        "more.",
    )

    def __init__(
        self,
        context: RouterContext,
        *,
        checkpoint: str | None = None,
        threshold: float | None = None,
        tokens_per_call: int = 1,
    ) -> None:
        super().__init__(context)
        if tokens_per_call < 1:
            raise ValueError(f"tokens_per_call must be at least 1, not {tokens_per_call}")
        if self.index != 0:
            return
        self._head: nn.Module | None = None
        if checkpoint is None:
            if threshold is None:
                raise ValueError("threshold is needed where there is no checkpoint")
            self.needs = frozenset({"extra_logits"})
            self.threshold = check_threshold(threshold)
            return
        loaded = load_checkpoint(checkpoint, "co_llm")
        loaded.check_models(context.models)
        self.needs = frozenset({"hidden_states"})
        self.threshold = check_threshold(loaded.threshold if threshold is None else threshold)
        head = self._head = loaded.build(DeferralHead)
        self._scores = CapturedForward(lambda hidden: head(hidden).sigmoid())

    @torch.inference_mode()
    def scores(self, result: RouteResult) -> Tensor:
        """Deferral probability: `[batch]` float32, on the engine's device."""
        seen = result.logits_output
        if self._head is None:
            assert seen.extra_logits is not None  # declared in `needs`
            return seen.extra_logits[:, -1].sigmoid()
        assert seen.hidden_states is not None
        beside(self._head, seen.hidden_states)
        return self._scores(seen.hidden_states)

    def delegates(self, result: RouteResult) -> Tensor:
        """Where deferral is likelier than η."""
        scores = self.scores(result)
        return scores > self.thresholds(result, scores)
