"""A configuration file: YAML, read strictly, with `--set KEY=VALUE` changes applied."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable
from pathlib import Path
from typing import Any

import yaml

from trsched.errors import ConfigError
from trsched.models.hf_files import is_hub_name


class _StrictLoader(yaml.SafeLoader):
    """YAML that refuses a key given twice and reads 1e-3 as a number, as YAML 1.2 does."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, Hashable) and key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"{key!r} is given twice", key_node.start_mark
                )
            if isinstance(key, Hashable):
                seen.add(key)
        return super().construct_mapping(node, deep=deep)


_StrictLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?\d+(?:\.\d*)?[eE][-+]?\d+"), list("-+0123456789")
)


def read_config(path: Path) -> dict[str, Any]:
    """The file's content; paths in it that are relative are relative to the file's folder.

    Raises ConfigError naming the file and, for bad YAML, the line.
    """
    return anchor_paths(parse_config(read_text(path), str(path)), path.parent)


def read_text(path: Path) -> str:
    """The file as it is. Raises ConfigError naming it."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"config {path}", error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"config {path}", f"not UTF-8 text ({error.reason})") from error


def parse_config(text: str, source: str) -> dict[str, Any]:
    """YAML text to a mapping. source: what to call it in errors."""
    try:
        data = yaml.load(text, Loader=_StrictLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f" line {mark.line + 1}" if mark else ""
        raise ConfigError(f"config {source}{where}", error.problem or str(error)) from error
    except yaml.YAMLError as error:
        raise ConfigError(f"config {source}", " ".join(str(error).split())) from error
    if not isinstance(data, dict):
        found = "nothing" if data is None else f"a {type(data).__name__}"
        raise ConfigError(f"config {source}", f"expected settings (`name: …`), found {found}")
    return data


def anchor_paths(data: dict[str, Any], folder: Path) -> dict[str, Any]:
    """`data` with relative paths of models and of the router's checkpoint relative to `folder`.

    `~`, `package://` and a model's name on the hub stay.
    """
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


def parse_change(text: str) -> tuple[list[str | int], Any]:
    """`router.settings.tau=0.2` or `models[0].threshold=2` to keys and value (YAML).

    Raises ConfigError naming `--set`.
    """
    name, equals, value = text.partition("=")
    keys = _keys(name)
    if not equals or not keys:
        raise ConfigError("--set", f"expected KEY=VALUE like router.settings.tau=0.2, not {text!r}")
    try:
        return keys, yaml.load(value, Loader=_StrictLoader)
    except yaml.YAMLError as error:
        raise ConfigError(f"--set {name}", f"not a YAML value: {value!r}") from error


def _keys(name: str) -> list[str | int]:
    parts = re.sub(r"\[(\d+)\]", r".\1", name.strip()).split(".")
    return [int(part) if part.isdigit() else part for part in parts] if all(parts) else []


def apply_changes(
    data: dict[str, Any], changes: Iterable[tuple[list[str | int], Any]]
) -> dict[str, Any]:
    """A copy of `data` with every change made. Raises ConfigError naming the setting."""
    for keys, value in changes:
        data = _changed(data, keys, value, "")
    return data


def _changed(data: Any, keys: list[str | int], value: Any, parent: str) -> Any:
    if not keys:
        return value
    key, rest = keys[0], keys[1:]
    if isinstance(data, list):
        field = f"{parent}[{key}]"
        if not isinstance(key, int) or key >= len(data):
            raise ConfigError(f"--set {field}", f"there are {len(data)} of them, counted from 0")
        return [*data[:key], _changed(data[key], rest, value, field), *data[key + 1 :]]
    field = f"{parent}.{key}".lstrip(".")
    if data is None:
        data = {}
    if not isinstance(data, dict):
        raise ConfigError(f"--set {field}", f"{parent} has no settings of its own")
    return {**data, str(key): _changed(data.get(str(key)), rest, value, field)}
