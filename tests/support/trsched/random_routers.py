"""Checkpoints of small networks that nobody has trained."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from trrouters import ModelIdentity
from trrouters.algorithms.citer import CiterNetwork
from trrouters.algorithms.co_llm import DeferralHead
from trrouters.algorithms.r2r_network import R2RNetwork
from trrouters.checkpoint import RouterCheckpoint, save_checkpoint

NETWORKS: dict[str, tuple[type[torch.nn.Module], dict[str, Any]]] = {
    "r2r": (R2RNetwork, {"hidden_size": 576, "top_k": 20, "widths": [64, 64], "expansion": 2}),
    "citer": (CiterNetwork, {"hidden_size": 576, "widths": [64]}),
    "co_llm": (DeferralHead, {"hidden_size": 576}),
}


def random_checkpoint(algorithm: str, folder: Path, pair: Sequence[ModelIdentity] = ()) -> str:
    """Write an untrained router for `pair`."""
    network, architecture = NETWORKS[algorithm]
    with torch.random.fork_rng():
        torch.manual_seed(3)
        tensors = network(**architecture).state_dict()
    save_checkpoint(RouterCheckpoint(algorithm, architecture, 0.5, pair, tensors), folder)
    return str(folder)
