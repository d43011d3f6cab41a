"""R2R's network for serving: what is linear in a row is one product instead of five."""

from __future__ import annotations

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trrouters.algorithms.r2r_network import R2RBlock, R2RNetwork


class R2RScorer(nn.Module):
    """The same function as the `R2RNetwork` it is made of, in half of the operations.

    At a batch of 16 a router's time on a CPU is mostly that of starting operations. Products that
    follow each other, and the scales of the norms before them, are multiplied out once, in float64;
    scores differ from the network's by float32's rounding.
    """

    def __init__(self, network: R2RNetwork) -> None:
        super().__init__()
        self.top_k = network.top_k
        self._normalize = network.normalize
        backbone = network.backbone
        joined = _after(backbone.input_projection, network.combined_projection)
        hidden_size = network.logits_projection.out_features
        state, token, top = torch.split(joined.weight, hidden_size, dim=1)
        bias = joined.bias + top @ network.logits_projection.bias.double()
        top = top @ network.logits_projection.weight.double()
        if network.normalize:
            norms = network.layer_norm_hidden_states, network.layer_norm_token
            bias = bias + state @ norms[0].bias.double() + token @ norms[1].bias.double()
            state, token = state * norms[0].weight, token * norms[1].weight
        self._first = _linear(torch.cat([state, token, top], dim=1), bias)
        self._blocks = nn.ModuleList(_BlockScorer(cast("R2RBlock", b)) for b in backbone.blocks)
        self._last = _after_norm(*backbone.output_layer)
        self.float().requires_grad_(False)

    def forward(self, hidden: Tensor, embedding: Tensor, top: Tensor) -> Tensor:
        """`[batch, hidden_size]` twice and `[batch, top_k]`, falling → `[batch]`."""
        if self._normalize:
            hidden, embedding, top = _norm(hidden), _norm(embedding), top.softmax(dim=-1)
        x = self._first(torch.cat([hidden, embedding, top], dim=-1))
        for block in self._blocks:
            x = block(x)
        return cast("Tensor", self._last(_norm(x)).squeeze(-1))


class _BlockScorer(nn.Module):
    def __init__(self, block: R2RBlock) -> None:
        super().__init__()
        self._up = _after_norm(block.layer_norm, cast("nn.Linear", block.mlp[0]))
        self._down = block.mlp[3]
        self._change = block.dim_change

    def forward(self, x: Tensor) -> Tensor:
        return cast("Tensor", self._change(x) + self._down(F.gelu(self._up(_norm(x)))))


def _norm(x: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape[-1:])


def _after(outer: nn.Linear, inner: nn.Linear) -> nn.Linear:
    """outer(inner(x)), in float64."""
    weight = outer.weight.double()
    return _linear(weight @ inner.weight.double(), weight @ inner.bias.double() + outer.bias)


def _after_norm(norm: nn.LayerNorm, linear: nn.Linear) -> nn.Linear:
    """linear(norm(x)) of an x that is normalized, but not yet scaled and shifted; in float64."""
    weight = linear.weight.double()
    return _linear(weight * norm.weight, weight @ norm.bias.double() + linear.bias)


def _linear(weight: Tensor, bias: Tensor) -> nn.Linear:
    made = nn.Linear(weight.shape[1], weight.shape[0], dtype=torch.float64)
    made.weight.data, made.bias.data = weight.contiguous(), bias
    return made
