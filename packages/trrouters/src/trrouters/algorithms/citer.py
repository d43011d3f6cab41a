"""CITER: tokens that the small model is not confident of go to the large one (arXiv 2502.01976)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_linear_bn_eval

from trrouters.algorithms.beside import beside
from trrouters.algorithms.captured_forward import CapturedForward
from trrouters.algorithms.one_token_visits import OneTokenVisits
from trrouters.base_router import RouterContext
from trrouters.checkpoint import check_sizes, check_threshold, load_checkpoint
from trrouters.route_result import RouteResult
from trrouters.threshold_setting import ThresholdSetting


class CiterNetwork(nn.Module):
    """Hidden state `[batch, hidden_size]` → the logit of "the small model is right", `[batch]`.

    Args:
        hidden_size: of the small model.
        widths: of the hidden layers (2h, h in the paper), each Linear, BatchNorm, ReLU, dropout.
        dropout: while it is trained.
    """

    def __init__(
        self, hidden_size: int, *, widths: Sequence[int] | None = None, dropout: float = 0.1
    ) -> None:
        super().__init__()
        sizes = [hidden_size, *((2 * hidden_size, hidden_size) if widths is None else widths)]
        check_sizes(hidden_size=hidden_size, widths=min(sizes[1:], default=0))
        layers: list[nn.Module] = []
        for size, width in pairwise(sizes):
            layers += [
                nn.Linear(size, width),
                nn.BatchNorm1d(width),
                nn.ReLU(),
                nn.Dropout(dropout),
            ]
        self.layers = nn.Sequential(*layers, nn.Linear(sizes[-1], 1))

    def forward(self, hidden: Tensor) -> Tensor:
        """`[batch, hidden_size]` → `[batch]`."""
        return cast("Tensor", self.layers(hidden).squeeze(-1))

    def for_serving(self) -> CiterNetwork:
        """The same function (as `eval` computes it), each BatchNorm multiplied into its Linear."""
        layers: list[nn.Module] = []
        for layer in self.layers:
            if isinstance(layer, nn.BatchNorm1d):
                layers[-1] = fuse_linear_bn_eval(cast("nn.Linear", layers[-1]), layer)
            elif not isinstance(layer, nn.Dropout):
                layers.append(layer)
        self.layers = nn.Sequential(*layers)
        return self


class Citer(OneTokenVisits):
    """The small model's token is dropped where its confidence is low; the large one makes one.

    Args:
        context: where it runs.
        checkpoint: folder of the trained router, `router.json` and `router.safetensors`.
        threshold: hand over where the network's confidence in the small model is below this (0.9
            to 0.95 in the paper); default: the checkpoint's.
    """

    threshold_setting = ThresholdSetting(
        "threshold",
        0.0,
        1.0,
        "The large model makes the tokens that the small one is less confident of than this: the "
        "higher, the more.",
    )

    def __init__(
        self, context: RouterContext, *, checkpoint: str, threshold: float | None = None
    ) -> None:
        super().__init__(context)
        if self.index != 0:
            return
        loaded = load_checkpoint(checkpoint, "citer")
        loaded.check_models(context.models)
        self.needs = frozenset({"hidden_states"})
        self.threshold = check_threshold(loaded.threshold if threshold is None else threshold)
        self._network = cast("CiterNetwork", loaded.build(CiterNetwork)).for_serving()
        self._scores = CapturedForward(lambda hidden: self._network(hidden).sigmoid())

    @torch.inference_mode()
    def scores(self, result: RouteResult) -> Tensor:
        """Confidence in the small model: `[batch]` float32, on the engine's device."""
        hidden = result.logits_output.hidden_states
        assert hidden is not None  # declared in `needs`
        beside(self._network, hidden)
        return self._scores(hidden)

    def delegates(self, result: RouteResult) -> Tensor:
        """Where the confidence is low."""
        scores = self.scores(result)
        return scores < self.thresholds(result, scores)
