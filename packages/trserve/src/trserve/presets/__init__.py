"""Configurations that come with trserve, by name: one YAML file each in this folder."""

from __future__ import annotations

from difflib import get_close_matches
from importlib.resources import files
from importlib.resources.abc import Traversable

from trsched.errors import ConfigError


def preset_names() -> list[str]:
    """All presets, sorted."""
    names = (file.name for file in files(__name__).iterdir())
    return sorted(name.removesuffix(".yaml") for name in names if name.endswith(".yaml"))


def preset_file(name: str) -> Traversable:
    """The preset's YAML file. Raises ConfigError that lists all and suggests the closest."""
    known = preset_names()
    if name not in known:
        close = get_close_matches(name, known, n=1)
        hint = f", did you mean {close[0]!r}?" if close else ""
        raise ConfigError("preset", f"there is no {name!r}{hint} (known: {', '.join(known)})")
    return files(__name__) / f"{name}.yaml"
