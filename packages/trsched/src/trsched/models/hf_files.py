"""Where a Hugging Face checkpoint is: a folder, or the hub's cache on this machine.

Nothing here opens a connection, except `fetch_hf_files`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from trrouters.package_path import locate
from trsched.errors import ConfigError, NotInstalledError
from trsched.models.hf_config import HfConfig, read_hf_config

_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
_SHIPPED = Path(__file__).with_name("hub_configs")
_CONFIG = "config.json"
_WEIGHTS = ("model*.safetensors", "*.safetensors")
_WANTED = ("*.json", "*.jinja", "*.safetensors", "*.txt", "*.model")
_NOT_WANTED = ("consolidated*", "original/*")
"""The same weights again, as the models' authors store them."""


@dataclass(frozen=True, slots=True)
class HfFiles:
    """What is on this machine of one checkpoint.

    config: what its config.json says; None: nothing is known.
    folder: it, its tokenizer and, if `weights`, its weights; None: they are on the hub.
    config_folder: has config.json at least.
    """

    config: HfConfig | None
    folder: Path | None
    config_folder: Path | None
    weights: tuple[Path, ...] = ()


def is_hub_name(path: str, here: Path = Path()) -> bool:
    """Whether `path` means a model on the hub: OWNER/NAME, and no folder of that name is `here`."""
    return _HUB_NAME.fullmatch(path) is not None and not (here / path).is_dir()


def find_hf_files(path: str, revision: str | None, field: str) -> HfFiles:
    """Look where `path` is: in a folder, or for a hub name in the hub's cache.

    For some models on the hub the configuration comes with this package. Raises ConfigError naming
    `field` for a folder that is none, and for a configuration that makes no sense.
    """
    if not is_hub_name(path):
        return _in_folder(_folder(path, field), field)
    cached = _cached_config(path, revision)
    if cached is not None:
        return _in_folder(cached.parent, field)
    shipped = _SHIPPED / path
    if (shipped / _CONFIG).is_file():
        return HfFiles(read_hf_config(shipped / _CONFIG, field), None, shipped)
    return HfFiles(None, None, None)


def fetch_hf_files(name: str, revision: str | None, field: str) -> None:
    """Download a model of the hub into its cache, or make sure that all of it is there.

    Raises ConfigError naming `field`.
    """
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError
    except ImportError as error:
        raise NotInstalledError(field, str(error.name), "huggingface") from error
    try:
        snapshot_download(
            name,
            revision=revision,
            allow_patterns=list(_WANTED),
            ignore_patterns=list(_NOT_WANTED),
        )
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as error:
        said = " ".join(str(error).split())[:300]
        raise ConfigError(field, f"{name!r} cannot be fetched from the hub: {said}") from error
    if not find_hf_files(name, revision, field).weights:
        raise ConfigError(field, f"{name!r} has no weights in safetensors on the hub")


def _cached_config(name: str, revision: str | None) -> Path | None:
    try:
        from huggingface_hub import try_to_load_from_cache
        from huggingface_hub.errors import HFValidationError
    except ImportError:  # then nothing of its cache can be known
        return None
    try:
        found = try_to_load_from_cache(name, _CONFIG, revision=revision)
    except HFValidationError:
        return None
    return Path(found) if isinstance(found, str) else None


def _folder(path: str, field: str) -> Path:
    try:
        folder = locate(path)
    except (FileNotFoundError, ValueError) as error:
        said = str(error).replace("no such file", "no such folder")
        raise ConfigError(field, f"{said} (a model on the hub is OWNER/NAME)") from error
    if not folder.is_dir():
        raise ConfigError(field, f"not a folder with a checkpoint: {path}")
    if not (folder / _CONFIG).is_file():
        raise ConfigError(field, f"no {_CONFIG} in {path}")
    return folder


def _in_folder(folder: Path, field: str) -> HfFiles:
    config = read_hf_config(folder / _CONFIG, field)
    return HfFiles(config, folder, folder, _weights(folder))


def _weights(folder: Path) -> tuple[Path, ...]:
    """All weight files, or none if one that the index names is not there (yet)."""
    for pattern in _WEIGHTS:
        files = tuple(sorted(folder.glob(pattern)))
        if files:
            shards = re.fullmatch(r".*-of-(\d+)", files[0].stem)
            return files if shards is None or len(files) >= int(shards[1]) else ()
    return ()
