"""A configuration file: a YAML mapping, with the paths in it relative to its folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from trsched.errors import ConfigError
from trsched.models.hf_files import is_hub_name
from trserve.settings.yaml_file import YamlFile, parse_yaml, read_yaml


def read_config(path: Path) -> YamlFile:
    """The file, with relative paths of models and of the router's checkpoint anchored.

    They are relative to the file's folder; `~`, `package://` and a model's name on the hub stay.
    Raises ConfigError naming the file and, for bad YAML, line and column.
    """
    file = checked_mapping(read_yaml(path, "config"))
    return replace(file, data=_with_anchored_paths(file.data, path.parent))


def parse_config(text: str, source: str) -> YamlFile:
    """A configuration that is no file. source: what to call it in errors."""
    return checked_mapping(parse_yaml(text, source))


def checked_mapping(file: YamlFile) -> YamlFile:
    """The same. Raises ConfigError: it holds no settings."""
    if not isinstance(file.data, dict):
        found = "nothing" if file.data is None else f"a {type(file.data).__name__}"
        raise ConfigError(file.source, f"expected settings (`name: …`), found {found}")
    return file


def _with_anchored_paths(data: dict[str, Any], folder: Path) -> dict[str, Any]:
    models, router = data.get("models"), data.get("router")
    if isinstance(models, list):
        data = {**data, "models": [_anchored_model(model, folder) for model in models]}
    if isinstance(router, dict) and "settings" in router:
        settings = _anchored(router["settings"], "checkpoint", folder)
        data = {**data, "router": {**router, "settings": settings}}
    return data


def _anchored_model(model: Any, folder: Path) -> Any:
    path = model.get("path") if isinstance(model, dict) else None
    if isinstance(path, str) and model.get("engine") == "sglang" and is_hub_name(path, folder):
        return model
    return _anchored(model, "path", folder)


def _anchored(section: Any, name: str, folder: Path) -> Any:
    path = section.get(name) if isinstance(section, dict) else None
    if not isinstance(path, str) or "://" in path or path.startswith("~"):
        return section
    return {**section, name: str(folder / path)}
