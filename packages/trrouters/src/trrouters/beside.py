"""A network on the device of what it reads."""

from __future__ import annotations

from typing import TypeVar

from torch import Tensor, nn

Network = TypeVar("Network", bound=nn.Module)


def beside(network: Network, seen: Tensor) -> Network:
    """`network`, moved to where `seen` is. (`to` alone walks all tensors, at every step.)"""
    if next(network.parameters()).device != seen.device:
        network.to(seen.device)
    return network
