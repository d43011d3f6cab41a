"""Convert a router of the public R2R collection (``nics-efc/R2R_router_collections``).

Its files (``*.pt``) are dictionaries written by ``torch.save``: ``model_type``, ``init_args``,
``common_args`` with the threshold, ``state_dict``. Such files are pickles, which could run code, so
no server loads them: this converts one, once, to a checkpoint of ours. It is read by torch's
restricted reader (``weights_only``), which knows tensors and plain data and refuses all else.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

from trrouters.checkpoint import RouterCheckpoint, check_threshold
from trrouters.errors import CheckpointError
from trrouters.model_identity import ModelIdentity
from trrouters.training.extra import TrainingExtraError

try:
    import torch
except ImportError as missing:
    raise TrainingExtraError("torch") from missing

from trrouters.algorithms.r2r_network import R2RNetwork

MODEL_TYPE = "HiddenStatesTokenLMHeadLogitsClassifier"
"""The collection's architecture that reads hidden state, sampled token and logits."""

_EMBEDDING = "token_embeddings.weight"  # frozen and the model's own: the engine shows it


def import_r2r(path: Path, *, large: str, small: str | None = None) -> RouterCheckpoint:
    """Read a file of the collection; architecture and threshold come from it.

    Args:
        path: the ``.pt`` file.
        large: name of the large model that it was trained with (the file doesn't say).
        small: name of the small model; default: what the file says.

    Raises:
        CheckpointError: when the file isn't such a router, or would run code.
    """
    content = _read(path)
    if content.get("model_type") != MODEL_TYPE:
        raise CheckpointError(f"{path}: {content.get('model_type')!r} routers are not supported")
    arguments = _dictionary(content, "init_args", path)
    tensors = _dictionary(content, "state_dict", path)
    tensors.pop(_EMBEDDING, None)
    for key, tensor in tensors.items():
        if not (isinstance(key, str) and isinstance(tensor, torch.Tensor)):
            raise CheckpointError(f"{path}: {key!r} of state_dict is not a named tensor")
    name = small or arguments.get("pretrained_model_name")
    if name is None:
        raise CheckpointError(f"{path} does not name its small model: say which")
    threshold = _dictionary(content, "common_args", path).get("threshold")
    if not isinstance(threshold, int | float):
        raise CheckpointError(f"{path} has no threshold")
    try:
        check_threshold(threshold)
    except ValueError as error:
        raise CheckpointError(f"{path}: {error}") from error
    checkpoint = RouterCheckpoint(
        algorithm="r2r",
        architecture=_architecture(arguments, tensors, path),
        threshold=float(threshold),
        pair=[ModelIdentity(str(name)), ModelIdentity(large)],
        tensors=tensors,
        training={"imported_from": path.name},
        source=str(path),
    )
    checkpoint.build(R2RNetwork)  # all tensors there, of the right shape, finite
    return checkpoint


def _read(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        try:
            content = torch.load(file, map_location="cpu", weights_only=True)
        except pickle.UnpicklingError as error:
            raise CheckpointError(
                f"{path} holds more than tensors and plain data, or is no file of torch.save; "
                "refused"
            ) from error
        except Exception as error:  # torch's reader has no one error for a damaged file
            said = str(error).partition("\n")[0]
            raise CheckpointError(f"{path} is not a file of torch.save: {said}") from error
    if not isinstance(content, dict):
        raise CheckpointError(f"{path} is not a router of the R2R collection")
    return content


def _dictionary(content: dict[str, Any], name: str, path: Path) -> dict[Any, Any]:
    part = content.get(name)
    if not isinstance(part, dict):
        raise CheckpointError(f"{path} has no {name}: not a router of the R2R collection")
    return dict(part)


def _architecture(
    arguments: dict[str, Any], tensors: dict[str, torch.Tensor], path: Path
) -> dict[str, Any]:
    """Our network's arguments; sizes are the tensors' own, as these can't be wrong."""
    try:
        hidden_size, top_k = tensors["logits_projection.weight"].shape
    except (KeyError, ValueError) as error:
        raise CheckpointError(f"{path}: no tensor 'logits_projection.weight'") from error
    widths = arguments.get("hidden_dims", [256, 512, 256])  # its own default
    return {
        "hidden_size": hidden_size,
        "top_k": top_k,
        "widths": list(widths) if isinstance(widths, tuple) else widths,
        "expansion": arguments.get("expansion_factor", 4),
        "normalize": bool(arguments.get("normalize_input", False)),
    }
