"""A trained router on disk: a folder with `router.json` and `router.safetensors`.

`router.json`::

    {
      "format": "trrouters-1",
      "algorithm": "r2r",
      "architecture": {"hidden_size": 576, ...},
      "threshold": 0.31,
      "pair": [{"name": "small", "fingerprint": "gguf-…"}, {"name": "large", "fingerprint": null}],
      "training": {"positions": 57000, ...}
    }

`architecture` are the network's keyword arguments; `threshold` is compared with its score (0 to 1);
`pair` are the models, by position in the group, that it was trained for (null: known by name only);
`training` are facts for people. `router.safetensors` holds the network's tensors in any float type,
computed with in float32. Nothing is ever unpickled.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from trrouters.errors import CheckpointError, MissingCheckpointError, MissingTorchError
from trrouters.model_identity import ModelIdentity
from trrouters.package_path import locate

if TYPE_CHECKING:
    import torch

FORMAT = "trrouters-1"
CONFIG_FILE = "router.json"
TENSORS_FILE = "router.safetensors"


class _Model(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    fingerprint: str | None = None


class _Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format: str
    algorithm: str
    architecture: dict[str, Any]
    threshold: float
    pair: list[_Model]
    training: dict[str, Any] = {}


@dataclass(frozen=True, slots=True)
class RouterCheckpoint:
    """A router's network and what must be known to use it.

    Attributes:
        algorithm: the router's registered name.
        architecture: the network's keyword arguments.
        threshold: compared with the network's score, 0 to 1.
        pair: the models that it was trained for, by position in the group.
        tensors: the network's, by name, in any float type.
        training: facts for people.
        source: where it comes from, for error messages.
    """

    algorithm: str
    architecture: Mapping[str, Any]
    threshold: float
    pair: Sequence[ModelIdentity]
    tensors: Mapping[str, torch.Tensor]
    training: Mapping[str, Any] = field(default_factory=dict)
    source: str = "the router"

    def build(self, network: type[torch.nn.Module]) -> torch.nn.Module:
        """`network(**architecture)` with these tensors, float32, ready to compute scores.

        Raises CheckpointError for an architecture it doesn't know, and for missing or foreign
        tensors, a wrong shape, or a number that isn't finite.
        """
        import torch

        for name, value in self.architecture.items():
            # a network has a tensor for every layer: no time for millions of them
            if isinstance(value, list) and len(value) > len(self.tensors):
                raise CheckpointError(
                    f"{self.source}: architecture: {name} has {len(value)} entries, "
                    f"more than there are tensors"
                )
        try:
            with torch.device("meta"):  # sizes only: no memory for an architecture of nonsense
                built = network(**self.architecture)
        except (TypeError, ValueError, IndexError, RuntimeError) as error:
            said = str(error).partition("\n")[0]  # torch adds where in its code it was found
            raise CheckpointError(f"{self.source}: architecture: {said}") from error
        self._check_tensors(built.state_dict())
        built.to_empty(device="cpu").load_state_dict(dict(self.tensors))
        return built.eval().requires_grad_(False)

    def _check_tensors(self, network: Mapping[str, torch.Tensor]) -> None:
        if missing := sorted(network.keys() - self.tensors.keys()):
            raise CheckpointError(f"{self.source}: no tensor {missing[0]!r}")
        if foreign := sorted(self.tensors.keys() - network.keys()):
            raise CheckpointError(f"{self.source}: tensor {foreign[0]!r} has no use")
        for name, tensor in self.tensors.items():
            wanted = network[name]
            if tensor.shape != wanted.shape:
                raise CheckpointError(
                    f"{self.source}: tensor {name!r} has shape {list(tensor.shape)}, "
                    f"not {list(wanted.shape)}"
                )
            if tensor.is_floating_point() != wanted.is_floating_point():
                raise CheckpointError(
                    f"{self.source}: tensor {name!r} has type {tensor.dtype}, not {wanted.dtype}"
                )
            if not tensor.float().isfinite().all():
                raise CheckpointError(f"{self.source}: tensor {name!r} is not finite (NaN or inf)")

    def check_models(self, models: Sequence[ModelIdentity]) -> None:
        """Raises CheckpointError, naming both pairs, if `models` aren't what it was trained for."""
        if not models:  # a context without identities: nothing is known that could differ
            return
        same = len(models) == len(self.pair) and all(
            trained.is_same(model) for trained, model in zip(self.pair, models, strict=True)
        )
        if not same:
            raise CheckpointError(
                f"{self.source} was trained for {_names(self.pair)}, not for {_names(models)}"
            )
        hidden_size = self.architecture.get("hidden_size")
        if hidden_size is not None and models[0].hidden_size not in (0, hidden_size):
            raise CheckpointError(
                f"{self.source} reads hidden states of {hidden_size}, "
                f"{models[0].name} has {models[0].hidden_size}"
            )


def load_checkpoint(path: str | Path, algorithm: str | None = None) -> RouterCheckpoint:
    """Read a checkpoint folder.

    Args:
        path: a path or `package://PACKAGE/FOLDER`.
        algorithm: what it must be for; None takes any.

    Raises:
        MissingTorchError: without torch or safetensors.
        MissingCheckpointError: when nothing is there.
        CheckpointError: naming the file and what is wrong with it.
    """
    try:
        folder = locate(str(path))
    except FileNotFoundError as error:
        raise MissingCheckpointError(f"checkpoint: {error}") from error
    except (OSError, ValueError) as error:
        raise CheckpointError(f"checkpoint: {error}") from error
    config = _read_config(folder / CONFIG_FILE)
    if algorithm not in (None, config.algorithm):
        raise CheckpointError(f"{folder} is a {config.algorithm!r} router, not {algorithm!r}")
    return RouterCheckpoint(
        algorithm=config.algorithm,
        architecture=config.architecture,
        threshold=config.threshold,
        pair=[ModelIdentity(model.name, model.fingerprint) for model in config.pair],
        tensors=_read_tensors(folder / TENSORS_FILE),
        training=config.training,
        source=str(folder),
    )


def save_checkpoint(checkpoint: RouterCheckpoint, folder: Path) -> None:
    """Write a checkpoint folder; tensors are stored as float16 where that loses no range.

    Each of the two files is whole or as it was. Raises OSError, ValueError for a number that JSON
    does not have.
    """
    from safetensors.torch import save

    tensors = {name: _compact(tensor) for name, tensor in checkpoint.tensors.items()}
    config = {
        "format": FORMAT,
        "algorithm": checkpoint.algorithm,
        "architecture": dict(checkpoint.architecture),
        "threshold": checkpoint.threshold,
        "pair": [{"name": m.name, "fingerprint": m.fingerprint} for m in checkpoint.pair],
        "training": dict(checkpoint.training),
    }
    text = json.dumps(config, indent=2, allow_nan=False) + "\n"
    folder.mkdir(parents=True, exist_ok=True)
    # not save_file: its files are the owner's alone to read, also once they are packaged
    for name, content in ((TENSORS_FILE, save(tensors)), (CONFIG_FILE, text.encode())):
        temporary = folder / f"{name}.part"  # the old tensors may be mapped: they are `tensors`
        temporary.write_bytes(content)
        temporary.replace(folder / name)


def check_sizes(**sizes: int) -> None:
    """For networks: ValueError naming a size that is not positive."""
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"{name} must be at least 1, not {size}")


def check_threshold(threshold: float, name: str = "threshold") -> float:
    """`threshold` if it can be compared with a score from 0 to 1, else ValueError naming it."""
    if not 0.0 <= threshold <= 1.0:  # also refuses NaN
        raise ValueError(f"{name} must be from 0 to 1, not {threshold}")
    return threshold


def _read_config(path: Path) -> _Config:
    try:
        config = msgspec.json.decode(path.read_bytes(), type=_Config)
    except OSError as error:
        raise CheckpointError(f"{path}: {error.strerror or error}") from error
    except (msgspec.DecodeError, RecursionError) as error:
        raise CheckpointError(f"{path}: {error}") from error
    if config.format != FORMAT:
        raise CheckpointError(f"{path}: format {config.format!r} is not {FORMAT!r}")
    try:
        check_threshold(config.threshold)
    except ValueError as error:
        raise CheckpointError(f"{path}: {error}") from error
    return config


def _read_tensors(path: Path) -> dict[str, torch.Tensor]:
    try:
        from safetensors import SafetensorError
        from safetensors.torch import load_file
    except ImportError as error:
        raise MissingTorchError("a trained router", str(error.name)) from error
    try:
        return load_file(path)
    except OSError as error:
        raise CheckpointError(f"{path}: {error.strerror or error}") from error
    except SafetensorError as error:
        raise CheckpointError(f"{path} is not a safetensors file: {error}") from error


def _compact(tensor: torch.Tensor) -> torch.Tensor:
    import torch

    half = tensor.detach().cpu().to(torch.float16)
    stays = bool(half.isfinite().all()) and tensor.is_floating_point()
    return (half if stays else tensor.detach().cpu()).contiguous()


def _names(models: Sequence[ModelIdentity]) -> str:
    return " + ".join(str(model) for model in models) or "no models"
