"""R2R, "Roads to Rome": only tokens that would change the answer go to the large model.

Fu et al., arXiv 2505.21600, section 4 and appendix A: the network, its inputs and the flow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from trrouters.base_router import BaseRouter, RouterContext
from trrouters.checkpoint import check_sizes, check_threshold, load_checkpoint
from trrouters.errors import CheckpointError
from trrouters.peer_req import PeerReq
from trrouters.route_result import Destinations, RouteResult
from trrouters.routed_request import RoutedRequest
from trrouters.top_logits import top_logits


class R2RNetwork(nn.Module):
    """Hidden state, sampled token's embedding and top logits → the logit of "divergent", `[batch]`.

    hidden_size: of the model. top_k: logits read. widths: of the residual blocks (six of 1024 in
    the paper). expansion: of each block's MLP. normalize: LayerNorm on state and embedding, softmax
    on the logits first. Tensors are named as in the authors' published checkpoints.
    """

    def __init__(
        self,
        hidden_size: int,
        *,
        top_k: int = 100,
        widths: Sequence[int] = (1024,) * 6,
        expansion: int = 4,
        dropout: float = 0.3,
        normalize: bool = False,
    ) -> None:
        super().__init__()
        check_sizes(hidden_size=hidden_size, top_k=top_k, widths=min(widths, default=0))
        check_sizes(expansion=expansion)
        self.top_k = top_k
        if normalize:
            self.layer_norm_hidden_states = nn.LayerNorm(hidden_size)
            self.layer_norm_token = nn.LayerNorm(hidden_size)
        self._normalize = normalize
        self.logits_projection = nn.Linear(top_k, hidden_size)
        self.combined_projection = nn.Linear(3 * hidden_size, widths[0])
        self.backbone = _Backbone(widths, expansion, dropout)

    def forward(self, hidden: Tensor, embedding: Tensor, top: Tensor) -> Tensor:
        """`[batch, hidden_size]` twice and `[batch, top_k]`, falling → `[batch]`."""
        if self._normalize:
            hidden = self.layer_norm_hidden_states(hidden)
            embedding = self.layer_norm_token(embedding)
            top = top.softmax(dim=-1)
        joined = torch.cat([hidden, embedding, self.logits_projection(top)], dim=-1)
        return cast("Tensor", self.backbone(self.combined_projection(joined)).squeeze(-1))


class _Backbone(nn.Module):
    def __init__(self, widths: Sequence[int], expansion: int, dropout: float) -> None:
        super().__init__()
        self.input_projection = nn.Linear(widths[0], widths[0])
        outputs = [*widths[1:], widths[-1]]
        self.blocks = nn.ModuleList(
            _Block(width, output, expansion, dropout)
            for width, output in zip(widths, outputs, strict=True)
        )
        self.output_layer = nn.Sequential(nn.LayerNorm(widths[-1]), nn.Linear(widths[-1], 1))

    def forward(self, x: Tensor) -> Tensor:
        x = self.input_projection(x)
        for block in self.blocks:
            x = block(x)
        return cast("Tensor", self.output_layer(x))


class _Block(nn.Module):
    def __init__(self, width: int, output: int, expansion: int, dropout: float) -> None:
        super().__init__()
        self.layer_norm = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, width * expansion),
            nn.GELU(),
            nn.Dropout(dropout),
            nn.Linear(width * expansion, output),
            nn.Dropout(dropout),
        )
        self.dim_change = nn.Linear(width, output) if width != output else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return cast("Tensor", self.dim_change(x) + self.mlp(self.layer_norm(x)))


class R2R(BaseRouter):
    """The small model's token is dropped where it looks divergent; the large one makes one token.

    checkpoint: folder of the trained router (see `trrouters.checkpoint`). threshold: θ, hand over
    where the network's probability of a divergent token is at least this; default: the
    checkpoint's, chosen for its recall.
    """

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
        self._network = cast("R2RNetwork", loaded.build(R2RNetwork))
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
        network = self._network.to(seen.hidden_states.device)
        top = top_logits(seen.next_token_logits, network.top_k)
        return cast("Tensor", network(seen.hidden_states, seen.token_embeddings, top).sigmoid())

    def route(self, result: RouteResult) -> Destinations:
        """Leave the small model where divergent; the large one always hands back."""
        if self.index == 1:
            return torch.ones(len(result.requests), dtype=torch.long)
        return (self.scores(result) >= self.threshold).long()

    def send(self, req: RoutedRequest) -> PeerReq:
        """The small model's token is dropped, the large one's stands."""
        return self.hand_off(req, keep_token=self.index == 1)
