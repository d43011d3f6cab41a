"""The trained routers by their definitions, in float64 numpy, one token at a time.

Reads a checkpoint's two files by itself; shares no code with the routers that it judges.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

Vector = NDArray[np.float64]

ROUNDING = 1e-5
"""Float32 products of other sizes round differently; scores this close to a threshold could fall on
either side of it, and no test may depend on one."""


@dataclass(frozen=True)
class Sight:
    """What a router sees of one step: of the small model, before its token stands."""

    logits: Vector
    hidden: Vector
    embedding: Vector


class ReferenceRouter:
    """One of `r2r`, `citer`, `co_llm`; remembers how close to its threshold it ever came."""

    def __init__(self, folder: Path, threshold: float | None = None) -> None:
        config = json.loads((folder / "router.json").read_text())
        tensors = load_file(folder / "router.safetensors")
        self._tensors = {name: tensor.astype(np.float64) for name, tensor in tensors.items()}
        self._architecture: Mapping[str, Any] = config["architecture"]
        self._algorithm = config["algorithm"]
        self.threshold = config["threshold"] if threshold is None else threshold
        self.closest = math.inf

    def hands_over(self, sight: Sight) -> bool:
        """Whether the token is dropped and the large model makes it."""
        score = 1 / (1 + math.exp(-self._output(sight)))
        self.closest = min(self.closest, abs(score - self.threshold))
        match self._algorithm:
            case "r2r":
                return score >= self.threshold
            case "citer":
                return score < self.threshold
        return score > self.threshold

    def _output(self, sight: Sight) -> float:
        match self._algorithm:
            case "r2r":
                return self._r2r(sight)
            case "citer":
                return self._citer(sight.hidden)
        return float(self._linear("row", sight.hidden)[0])

    def _r2r(self, sight: Sight) -> float:
        hidden, token = sight.hidden, sight.embedding
        top = np.sort(sight.logits)[::-1][: self._architecture["top_k"]]
        if self._architecture["normalize"]:
            hidden = self._layer_norm("layer_norm_hidden_states", hidden)
            token = self._layer_norm("layer_norm_token", token)
            top = np.exp(top - top[0]) / np.exp(top - top[0]).sum()
        joined = np.concatenate([hidden, token, self._linear("logits_projection", top)])
        x = self._linear("backbone.input_projection", self._linear("combined_projection", joined))
        for i, _ in enumerate(self._architecture["widths"]):
            block = f"backbone.blocks.{i}"
            inner = self._linear(f"{block}.mlp.0", self._layer_norm(f"{block}.layer_norm", x))
            inner = np.array([v * (1 + math.erf(v / math.sqrt(2))) / 2 for v in inner])  # GELU
            kept = self._linear(f"{block}.dim_change", x) if self._has(f"{block}.dim_change") else x
            x = kept + self._linear(f"{block}.mlp.3", inner)
        x = self._layer_norm("backbone.output_layer.0", x)
        return float(self._linear("backbone.output_layer.1", x)[0])

    def _citer(self, x: Vector) -> float:
        i = 0
        while self._has(f"layers.{i + 1}", "running_mean"):
            x = self._linear(f"layers.{i}", x)
            mean, variance = (self._tensors[f"layers.{i + 1}.running_{m}"] for m in ("mean", "var"))
            scaled = (x - mean) / np.sqrt(variance + 1e-5)
            weight, bias = (self._tensors[f"layers.{i + 1}.{name}"] for name in ("weight", "bias"))
            x = np.maximum(scaled * weight + bias, 0)
            i += 4  # Linear, BatchNorm, ReLU, dropout
        return float(self._linear(f"layers.{i}", x)[0])

    def _linear(self, name: str, x: Vector) -> Vector:
        return self._tensors[f"{name}.weight"] @ x + self._tensors[f"{name}.bias"]

    def _layer_norm(self, name: str, x: Vector) -> Vector:
        scaled: Vector = (x - x.mean()) / np.sqrt(x.var() + 1e-5)
        return scaled * self._tensors[f"{name}.weight"] + self._tensors[f"{name}.bias"]

    def _has(self, name: str, part: str = "weight") -> bool:
        return f"{name}.{part}" in self._tensors
