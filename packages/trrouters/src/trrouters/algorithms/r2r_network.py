"""The network of R2R (Fu et al., arXiv 2505.21600, section 4 and appendix A)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from trrouters.checkpoint import check_sizes


class R2RNetwork(nn.Module):
    """Hidden state, sampled token's embedding and top logits → the logit of "divergent", `[batch]`.

    Tensors are named as in the authors' published checkpoints.

    Args:
        hidden_size: of the small model.
        top_k: logits read.
        widths: of the residual blocks (six of 1024 in the paper).
        expansion: of each block's MLP.
        dropout: while it is trained.
        normalize: LayerNorm on state and embedding, softmax on the logits first.
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
        self.normalize = normalize
        self.logits_projection = nn.Linear(top_k, hidden_size)
        self.combined_projection = nn.Linear(3 * hidden_size, widths[0])
        self.backbone = R2RBackbone(widths, expansion, dropout)

    def forward(self, hidden: Tensor, embedding: Tensor, top: Tensor) -> Tensor:
        """`[batch, hidden_size]` twice and `[batch, top_k]`, falling → `[batch]`."""
        if self.normalize:
            hidden = self.layer_norm_hidden_states(hidden)
            embedding = self.layer_norm_token(embedding)
            top = top.softmax(dim=-1)
        joined = torch.cat([hidden, embedding, self.logits_projection(top)], dim=-1)
        return cast("Tensor", self.backbone(self.combined_projection(joined)).squeeze(-1))


class R2RBackbone(nn.Module):
    """A projection, residual blocks, and one output."""

    def __init__(self, widths: Sequence[int], expansion: int, dropout: float) -> None:
        super().__init__()
        self.input_projection = nn.Linear(widths[0], widths[0])
        outputs = [*widths[1:], widths[-1]]
        self.blocks = nn.ModuleList(
            R2RBlock(width, output, expansion, dropout)
            for width, output in zip(widths, outputs, strict=True)
        )
        self.output_layer = nn.Sequential(nn.LayerNorm(widths[-1]), nn.Linear(widths[-1], 1))

    def forward(self, x: Tensor) -> Tensor:
        x = self.input_projection(x)
        for block in self.blocks:
            x = block(x)
        return cast("Tensor", self.output_layer(x))


class R2RBlock(nn.Module):
    """x + MLP(LayerNorm(x)); where the width changes, x is projected."""

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
