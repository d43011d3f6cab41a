"""A network on the device of what it reads."""

from __future__ import annotations

from torch import Tensor, nn


def beside(network: nn.Module, seen: Tensor) -> None:
    """Move `network` to where `seen` is. (`to` alone walks all tensors, at every step.)"""
    if next(network.parameters()).device != seen.device:
        network.to(seen.device)
