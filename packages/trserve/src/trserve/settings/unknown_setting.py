"""Settings that do not exist, and the closest that do."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from trsched.errors import ConfigError


def unknown(name: str, known: Iterable[str]) -> str:
    """What to say of a setting that does not exist."""
    close = get_close_matches(name, list(known), n=1)
    return f"unknown setting, did you mean {close[0]!r}?" if close else "unknown setting"


def naming_unknown_field(error: ConfigError, structs: Mapping[str, Iterable[Any]]) -> ConfigError:
    """Of an unknown field msgspec names the object: name the field itself, and one alike.

    structs: what may stand in a section, by its path without indices and names (`models[].sampling`
    is `models.sampling`); by `configuration` for the whole.
    """
    match = re.search(r"Object contains unknown field `(.+)`", error.message)
    if match is None:
        return error
    section = re.sub(r"\[[^]]*\]", "", error.field)
    known = [name for struct in structs.get(section, ()) for name in struct.__struct_fields__]
    parent = "" if error.field == "configuration" else f"{error.field}."
    return ConfigError(f"{parent}{match[1]}", unknown(match[1], known))
