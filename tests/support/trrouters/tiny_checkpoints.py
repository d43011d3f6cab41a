"""Checkpoints of small random networks, and the three networks written down in numpy float64."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tests.support.trrouters.seen_request import SeenRequest
from trrouters import LogitsOutput, ModelIdentity, RouterContext, RouteResult
from trrouters.algorithms.citer import CiterNetwork
from trrouters.algorithms.co_llm import DeferralHead
from trrouters.algorithms.r2r_network import R2RNetwork
from trrouters.checkpoint import CONFIG_FILE, RouterCheckpoint, save_checkpoint

HIDDEN, TOP_K, VOCAB = 12, 9, 60
PAIR = (ModelIdentity("small", "weights-1", HIDDEN), ModelIdentity("large", "weights-2"))
NETWORKS: dict[str, type[torch.nn.Module]] = {
    "r2r": R2RNetwork,
    "citer": CiterNetwork,
    "co_llm": DeferralHead,
}
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "r2r": {
        "hidden_size": HIDDEN,
        "top_k": TOP_K,
        "widths": [16, 24, 8],
        "expansion": 2,
        "normalize": True,
    },
    "citer": {"hidden_size": HIDDEN, "widths": [20, 10]},
    "co_llm": {"hidden_size": HIDDEN},
}
R2R_SMALL = "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B"
BOTTLENECK = [16, 24, 16]
Floats = NDArray[np.float64]
Arrays = Mapping[str, Floats]


def tiny_tensors(
    algorithm: str, seed: int = 0, architecture: Mapping[str, Any] | None = None
) -> dict[str, torch.Tensor]:
    """Random tensors, those of the norms too; numbers that float16 holds exactly."""
    network = NETWORKS[algorithm](**(architecture or ARCHITECTURES[algorithm]))
    rng = np.random.default_rng(seed)
    tensors = {}
    for name, tensor in network.state_dict().items():
        if not tensor.is_floating_point():
            tensors[name] = torch.tensor(17)
            continue
        if tensor.dim() == 2:
            values = rng.normal(0, 2 / math.sqrt(tensor.shape[1]), tensor.shape)
        else:  # biases, means; weights and variances of norms
            values = rng.normal(0, 0.3, tensor.shape)
            values += 0 if name.endswith(("bias", "running_mean")) else 1
            values = np.abs(values) + 0.1 if name.endswith("running_var") else values
        tensors[name] = torch.from_numpy(values.astype(np.float16).astype(np.float32))
    return tensors


def tiny_checkpoint(algorithm: str, seed: int = 0, **fields: Any) -> RouterCheckpoint:
    """Tensors are those of the given seed; of the tiny architecture whatever the fields say."""
    architecture = fields.pop("architecture", ARCHITECTURES[algorithm])
    tensors = fields.pop("tensors", None) or tiny_tensors(algorithm, seed)
    fields = {"threshold": 0.5, "pair": PAIR, **fields}
    return RouterCheckpoint(algorithm, architecture, tensors=tensors, **fields)


def saved(folder: Path, algorithm: str, seed: int = 0, **fields: Any) -> str:
    """A checkpoint written to `folder`, as routers' settings name it."""
    save_checkpoint(tiny_checkpoint(algorithm, seed, **fields), folder)
    return str(folder)


def published_r2r(seed: int = 0, *, normalize: bool = False) -> dict[str, Any]:
    """What R2R's authors publish (their `save_model`), embedding included."""
    shape = {"hidden_size": HIDDEN, "top_k": TOP_K, "widths": BOTTLENECK, "normalize": normalize}
    embedding = torch.ones(VOCAB, HIDDEN)
    return {
        "model_type": "HiddenStatesTokenLMHeadLogitsClassifier",
        "init_args": {
            "hidden_states_size": HIDDEN,
            "logits_size": TOP_K,
            "hidden_dims": BOTTLENECK,
            "expansion_factor": 4,
            "dropout_rate": 0.3,
            "pretrained_model_name": R2R_SMALL,
            "use_position_embedding": False,
            "normalize_input": normalize,
            "freeze_lm_head": True,
        },
        "common_args": {"threshold": 0.44, "input_type": ["hidden_states", "token", "logits"]},
        "model_specific_args": {},
        "state_dict": {"token_embeddings.weight": embedding, **tiny_tensors("r2r", seed, shape)},
    }


def edit_config(folder: Path | str, change: Callable[[dict[str, Any]], object]) -> None:
    path = Path(folder) / CONFIG_FILE
    config = json.loads(path.read_text())
    change(config)
    path.write_text(json.dumps(config))


def context(
    index: int = 0, models: tuple[ModelIdentity, ...] = PAIR, vocab: int = VOCAB
) -> RouterContext:
    return RouterContext(index, 2, vocab, models)


def some_rows(count: int, seed: int = 0) -> LogitsOutput:
    """What an engine would show of `count` random rows, an extra row of the head included."""
    rng = np.random.default_rng([seed, count])

    def normal(width: int, scale: float = 1.0) -> torch.Tensor:
        return torch.from_numpy(rng.normal(0, scale, (count, width)).astype(np.float32))

    return LogitsOutput(normal(VOCAB, 3), normal(HIDDEN), normal(HIDDEN), normal(2))


def picked(seen: LogitsOutput, rows: Iterable[int]) -> LogitsOutput:
    """Rows of an output as a batch of their own."""
    chosen = list(rows)
    parts = [seen.next_token_logits, seen.hidden_states, seen.token_embeddings, seen.extra_logits]
    return LogitsOutput(*(None if part is None else part[chosen] for part in parts))


def step_showing(seen: LogitsOutput, count: int) -> RouteResult:
    requests = [SeenRequest([1, 2], [3]) for _ in range(count)]
    return RouteResult(requests, np.full(count, 3, dtype=np.int64), seen)


# --- the networks as their papers describe them


def plain_scores(algorithm: str, tensors: Mapping[str, torch.Tensor], seen: LogitsOutput) -> Floats:
    """The probability that the network gives each row, without torch and in float64."""
    arrays = {name: tensor.double().numpy() for name, tensor in tensors.items()}
    assert seen.hidden_states is not None
    hidden = seen.hidden_states.double().numpy()
    if algorithm == "co_llm":
        outputs = linear(hidden, arrays, "row")
    elif algorithm == "citer":
        outputs = _citer(hidden, arrays)
    else:
        assert seen.token_embeddings is not None
        assert seen.next_token_logits is not None
        logits = np.sort(seen.next_token_logits.double().numpy(), axis=1)[:, ::-1]
        outputs = _r2r(hidden, seen.token_embeddings.double().numpy(), logits, arrays)
    return sigmoid(outputs[:, 0])


def _citer(x: Floats, arrays: Arrays) -> Floats:
    """Linear, BatchNorm by the running statistics, ReLU, dropout (idle); last a Linear alone."""
    layer = 0
    while f"layers.{layer + 1}.running_mean" in arrays:
        x = linear(x, arrays, f"layers.{layer}")
        norm = f"layers.{layer + 1}"
        deviation = np.sqrt(arrays[f"{norm}.running_var"] + 1e-5)
        x = (x - arrays[f"{norm}.running_mean"]) / deviation
        x = np.maximum(x * arrays[f"{norm}.weight"] + arrays[f"{norm}.bias"], 0)
        layer += 4
    return linear(x, arrays, f"layers.{layer}")


def _r2r(hidden: Floats, embedding: Floats, logits: Floats, arrays: Arrays) -> Floats:
    top = logits[:, : arrays["logits_projection.weight"].shape[1]]
    if "layer_norm_token.weight" in arrays:
        hidden = layer_norm(hidden, arrays, "layer_norm_hidden_states")
        embedding = layer_norm(embedding, arrays, "layer_norm_token")
        weights = np.exp(top - top[:, :1])
        top = weights / weights.sum(axis=1, keepdims=True)
    joined = np.concatenate([hidden, embedding, linear(top, arrays, "logits_projection")], axis=1)
    x = linear(linear(joined, arrays, "combined_projection"), arrays, "backbone.input_projection")
    block = 0
    while f"backbone.blocks.{block}.layer_norm.weight" in arrays:
        name = f"backbone.blocks.{block}"
        wide = gelu(linear(layer_norm(x, arrays, f"{name}.layer_norm"), arrays, f"{name}.mlp.0"))
        kept = f"{name}.dim_change"
        straight = linear(x, arrays, kept) if f"{kept}.weight" in arrays else x
        x = straight + linear(wide, arrays, f"{name}.mlp.3")
        block += 1
    x = layer_norm(x, arrays, "backbone.output_layer.0")
    return linear(x, arrays, "backbone.output_layer.1")


def linear(x: Floats, arrays: Arrays, name: str) -> Floats:
    return x @ arrays[f"{name}.weight"].T + arrays[f"{name}.bias"]


def layer_norm(x: Floats, arrays: Arrays, name: str) -> Floats:
    variance = x.var(axis=1, keepdims=True)
    plain: Floats = (x - x.mean(axis=1, keepdims=True)) / np.sqrt(variance + 1e-5)
    return plain * arrays[f"{name}.weight"] + arrays[f"{name}.bias"]


def gelu(x: Floats) -> Floats:
    erf: Floats = np.vectorize(math.erf, otypes=[np.float64])(x / math.sqrt(2))
    return 0.5 * x * (1 + erf)


def sigmoid(x: Floats) -> Floats:
    return 1 / (1 + np.exp(-x))
