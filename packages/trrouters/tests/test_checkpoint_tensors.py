"""A checkpoint whose tensors or architecture cannot be a network is refused, and says why."""

# ruff: noqa: E402  (without torch this module is skipped before it imports it)

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="trrouters[torch] is not installed: no torch")
pytest.importorskip("safetensors", reason="trrouters[torch] is not installed: no safetensors")

from safetensors.torch import save_file

from tests.support.trrouters.tiny_checkpoints import (
    ARCHITECTURES,
    NETWORKS,
    context,
    edit_config,
    saved,
    tiny_tensors,
)
from trrouters import CheckpointError, create_router

trained = pytest.mark.parametrize("algorithm", sorted(NETWORKS))
FIRST = {"r2r": "logits_projection.weight", "citer": "layers.0.weight", "co_llm": "row.weight"}
LAST = {"r2r": "backbone.output_layer.1.bias", "citer": "layers.8.bias", "co_llm": "row.bias"}
NORMS = {"r2r": "layer_norm_token.weight", "citer": "layers.1.running_var", "co_llm": "row.weight"}


def refusal(algorithm: str, folder: str) -> str:
    with pytest.raises(CheckpointError) as caught:
        create_router(algorithm, context(models=()), {"checkpoint": folder})
    said = str(caught.value)
    assert said.startswith(f"{folder}: ")
    assert "\n" not in said
    return said.removeprefix(f"{folder}: ")


@trained
@pytest.mark.parametrize("names", [FIRST, LAST, NORMS])
def test_a_missing_tensor_is_named(tmp_path: Path, algorithm: str, names: dict[str, str]) -> None:
    tensors = tiny_tensors(algorithm)
    del tensors[names[algorithm]]
    folder = saved(tmp_path, algorithm, tensors=tensors)
    assert refusal(algorithm, folder) == f"no tensor {names[algorithm]!r}"


@trained
def test_a_foreign_tensor_is_named(tmp_path: Path, algorithm: str) -> None:
    tensors = tiny_tensors(algorithm) | {"backbone.position_embedding": torch.zeros(4, 4)}
    folder = saved(tmp_path, algorithm, tensors=tensors)
    assert refusal(algorithm, folder) == "tensor 'backbone.position_embedding' has no use"


@trained
@pytest.mark.parametrize("names", [FIRST, LAST, NORMS])
def test_a_wrong_shape_is_named(tmp_path: Path, algorithm: str, names: dict[str, str]) -> None:
    name = names[algorithm]
    tensors = tiny_tensors(algorithm)
    shape = list(tensors[name].shape)
    tensors[name] = torch.cat([tensors[name], tensors[name]])
    folder = saved(tmp_path, algorithm, tensors=tensors)
    doubled = [2 * shape[0], *shape[1:]]
    assert refusal(algorithm, folder) == f"tensor {name!r} has shape {doubled}, not {shape}"


@trained
@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("names", [FIRST, LAST, NORMS])
def test_a_number_that_is_not_finite_is_found(
    tmp_path: Path, algorithm: str, names: dict[str, str], number: float
) -> None:
    tensors = tiny_tensors(algorithm)
    tensors[names[algorithm]].view(-1)[-1] = number
    folder = saved(tmp_path, algorithm, tensors=tensors)
    said = f"tensor {names[algorithm]!r} is not finite (NaN or inf)"
    assert refusal(algorithm, folder) == said


def test_a_number_that_is_not_finite_in_float32_is_found(tmp_path: Path) -> None:
    tensors = {name: tensor.double() for name, tensor in tiny_tensors("co_llm").items()}
    tensors["row.bias"][0] = 1e300
    folder = saved(tmp_path, "co_llm", tensors=tensors)
    assert "'row.bias' is not finite" in refusal("co_llm", folder)


@trained
@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.complex64])
def test_a_type_that_is_no_float_is_refused(tmp_path: Path, algorithm: str, dtype: Any) -> None:
    tensors, name = tiny_tensors(algorithm), FIRST[algorithm]
    folder = saved(tmp_path, algorithm)
    save_file({**tensors, name: tensors[name].to(dtype)}, Path(folder) / "router.safetensors")
    assert refusal(algorithm, folder) == f"tensor {name!r} has type {dtype}, not torch.float32"


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("depth", 3),
        ("self", 3),
        ("hidden_size", -1),
        ("hidden_size", 0),
        ("hidden_size", "12"),
        ("hidden_size", 12.5),
        ("hidden_size", None),
        ("hidden_size", [12]),
        ("hidden_size", 10**12),
        ("hidden_size", 10**18),
        ("widths", 10**15),
        ("widths", [10**15]),
        ("widths", []),
        ("widths", [16, 0]),
        ("widths", [1] * 10**6),
        ("widths", [16, -24, 8]),
        ("widths", ["16"]),
        ("widths", "wide"),
        ("widths", {"16": 1}),
        ("widths", 16),
        ("dropout", 2),
        ("dropout", "x"),
        ("top_k", 0),
        ("top_k", -9),
        ("top_k", "many"),
        ("expansion", 0),
        ("expansion", 1.5),
        ("expansion", [2]),
        ("normalize", 0),  # the tensors of normalization are there
    ],
)
def test_an_architecture_of_nonsense_is_refused(tmp_path: Path, argument: str, value: Any) -> None:
    for algorithm, known in ARCHITECTURES.items():
        folder = saved(tmp_path / algorithm, algorithm, architecture={**known, argument: value})
        said = refusal(algorithm, folder)
        assert "architecture: " in said or "tensor " in said
        if argument not in (*known, "dropout", "self"):
            assert argument in said, "an argument that the network doesn't have"


@trained
def test_a_missing_argument_is_named(tmp_path: Path, algorithm: str) -> None:
    folder = saved(tmp_path, algorithm)
    edit_config(folder, lambda config: config["architecture"].pop("hidden_size"))
    assert "'hidden_size'" in refusal(algorithm, folder)


@pytest.mark.parametrize(
    ("argument", "value"), [("hidden_size", 0), ("top_k", -9), ("expansion", 0), ("widths", [])]
)
def test_a_size_that_cannot_be_is_named(tmp_path: Path, argument: str, value: Any) -> None:
    folder = saved(tmp_path, "r2r", architecture={**ARCHITECTURES["r2r"], argument: value})
    assert refusal("r2r", folder).startswith(f"architecture: {argument} must be at least 1")
