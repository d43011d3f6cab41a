"""A fitted predictor on disk: a folder with `predictor.json` and `predictor.safetensors`.

`predictor.json`::

    {
      "format": "rbalance-predictor-1",
      "embedder": {"name": "all-MiniLM-L6-v2", "fingerprint": "5d1f…", "dimension": 384},
      "prompts": 9617,
      "k": 40,
      "prior_weight": 0.5,
      "models": [{"name": "small", "quality": 0.42, "length": 180.2}, …],
      "training": {"files": ["…"], …}
    }

A model's quality (0 to 1) and length (output tokens) are its prior, so that the prior can be had
without the rest; `training` are facts for people. `predictor.safetensors` holds `vectors` (float16
[N, D]), `quality` and `length` (float32 [N, M], NaN for no label) and `digests` (uint64 [N]). No
prompt is stored, and nothing is ever unpickled.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from rbalance.artefact_header import ArtefactHeader, read_header
from rbalance.errors import ArtefactError, MissingExtraError
from rbalance.predict.knn import KnnFit
from rbalance.predict.predictions import Prior

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

FORMAT = "rbalance-predictor-1"
HEADER_FILE = "predictor.json"
ARRAYS_FILE = "predictor.safetensors"


class _Embedder(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    fingerprint: str
    dimension: int


class _Model(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    quality: float
    length: float


class _Header(ArtefactHeader, frozen=True, forbid_unknown_fields=True):
    embedder: _Embedder
    prompts: int
    k: int
    prior_weight: float
    models: list[_Model]
    training: dict[str, Any] = msgspec.field(default_factory=dict)


def save_predictor(fit: KnnFit, folder: Path, training: Mapping[str, Any] | None = None) -> None:
    """Write the folder; each of its two files is whole or as it was. Raises OSError."""
    prior = fit.prior
    header = _Header(
        format=FORMAT,
        embedder=_Embedder(fit.embedder, fit.fingerprint, fit.vectors.shape[1]),
        prompts=len(fit.vectors),
        k=fit.k,
        prior_weight=fit.prior_weight,
        models=[
            _Model(name, float(quality), float(length))
            for name, quality, length in zip(prior.models, prior.quality, prior.length, strict=True)
        ],
        training=dict(training or {}),
    )
    text = json.dumps(msgspec.to_builtins(header), indent=2, allow_nan=False) + "\n"
    arrays = _safetensors().save(
        {
            "vectors": np.ascontiguousarray(fit.vectors),
            "quality": np.ascontiguousarray(fit.quality),
            "length": np.ascontiguousarray(fit.length),
            "digests": np.ascontiguousarray(fit.digests),
        }
    )
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in ((ARRAYS_FILE, arrays), (HEADER_FILE, text.encode())):
        temporary = folder / f"{name}.part"
        temporary.write_bytes(content)
        temporary.replace(folder / name)


def load_predictor(folder: Path) -> KnnFit:
    """Read a folder. Raises ArtefactError naming the file and what is wrong with it."""
    header = _read_header(folder / HEADER_FILE)
    path = folder / ARRAYS_FILE
    arrays = _read_arrays(path)
    prompts, models = header.prompts, len(header.models)
    wanted: dict[str, tuple[type[np.generic], tuple[int, ...]]] = {
        "vectors": (np.float16, (prompts, header.embedder.dimension)),
        "quality": (np.float32, (prompts, models)),
        "length": (np.float32, (prompts, models)),
        "digests": (np.uint64, (prompts,)),
    }
    if arrays.keys() != wanted.keys():
        raise ArtefactError(f"{path}: holds {sorted(arrays)}, not {sorted(wanted)}")
    for name, (kind, shape) in wanted.items():
        array = arrays[name]
        if array.dtype != kind or array.shape != shape:
            raise ArtefactError(
                f"{path}: {name} is {array.dtype} {list(array.shape)}, "
                f"not {np.dtype(kind)} {list(shape)}"
            )
    _check_numbers(path, arrays)
    return KnnFit(
        prior=_prior(header),
        vectors=arrays["vectors"],
        quality=arrays["quality"],
        length=arrays["length"],
        digests=arrays["digests"],
        k=header.k,
        prior_weight=header.prior_weight,
        embedder=header.embedder.name,
        fingerprint=header.embedder.fingerprint,
    )


def load_prior(folder: Path) -> Prior:
    """The prior alone: needs no optional library. Raises ArtefactError."""
    return _prior(_read_header(folder / HEADER_FILE))


def _read_header(path: Path) -> _Header:
    header = read_header(path, _Header, FORMAT)
    names = [model.name for model in header.models]
    if not names or len(set(names)) < len(names):
        raise ArtefactError(f"{path}: models: no model, or one twice")
    if header.k < 1 or header.prompts < 1 or header.prior_weight < 0.0:
        raise ArtefactError(f"{path}: k, prompts or prior_weight is too small")
    for model in header.models:
        if not (0.0 <= model.quality <= 1.0 and model.length >= 1.0):
            raise ArtefactError(f"{path}: model {model.name!r}: no such quality or length")
    return header


def _read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    library = _safetensors()
    from safetensors import SafetensorError

    try:
        return dict(library.load_file(path))
    except OSError as error:
        raise ArtefactError(f"{path}: {error.strerror or error}") from error
    except SafetensorError as error:
        raise ArtefactError(f"{path} is not a safetensors file: {error}") from error


def _check_numbers(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    if not np.isfinite(arrays["vectors"]).all():
        raise ArtefactError(f"{path}: vectors are not finite (NaN or inf)")
    quality, length = arrays["quality"], arrays["length"]
    if ((quality < 0.0) | (quality > 1.0)).any() or ((length < 0.0) | np.isinf(length)).any():
        raise ArtefactError(f"{path}: a label is out of range")


def _prior(header: _Header) -> Prior:
    return Prior(
        models=tuple(model.name for model in header.models),
        quality=np.array([model.quality for model in header.models], np.float32),
        length=np.array([model.length for model in header.models], np.float32),
    )


def _safetensors() -> Any:
    try:
        import safetensors.numpy
    except ImportError as missing:
        raise MissingExtraError("safetensors", "predict") from missing
    return safetensors.numpy
