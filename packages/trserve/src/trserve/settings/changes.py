"""`--set KEY=VALUE`: changes of a configuration, made before it is checked."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import yaml

from trsched.errors import ConfigError
from trserve.settings.yaml_file import parse_value


def parse_change(text: str) -> tuple[list[str | int], Any]:
    """`router.settings.tau=0.2` or `models[0].threshold=2` to keys and value (YAML).

    Raises ConfigError naming `--set`.
    """
    name, equals, value = text.partition("=")
    keys = _keys(name)
    if not equals or not keys:
        raise ConfigError("--set", f"expected KEY=VALUE like router.settings.tau=0.2, not {text!r}")
    try:
        return keys, parse_value(value)
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
