"""What one command line asks for: a preset or a file, changed by flags and environment."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trsched.errors import ConfigError
from trsched.plan.config import GroupConfig, LlamaCppModel, ProfileModel, RouterConfig, group_config
from trsched.plan.sglang_model import SglangModel
from trsched.request import ModelSampling
from trserve.presets import preset_file
from trserve.settings.config_file import apply_changes, parse_change, parse_config, read_config
from trserve.settings.server_settings import GroupSettings, ServerSettings, unknown

_OUR_SECTIONS = ("server", "description")


@dataclass(frozen=True, slots=True)
class Deployment:
    """A group and how to serve it. source: `preset NAME` or the file."""

    source: str
    description: str
    server: ServerSettings
    group: GroupConfig


def load_deployment(
    *,
    preset: str | None = None,
    config: Path | None = None,
    flags: Mapping[str, Any] | None = None,
    changes: Sequence[str] = (),
) -> Deployment:
    """Read, merge and check everything that can be checked from the text alone.

    flags: settings by name, None for those not given. changes: `KEY=VALUE` texts, which count as
    flags. Raises ConfigError naming the field.
    """
    source, data = _read(preset, config)
    given = {name: value for name, value in (flags or {}).items() if value is not None}
    data, given = _split_changes(data, given, changes)
    section = data.get("server")
    if section is not None and not isinstance(section, dict):
        raise ConfigError("server", f"expected settings, found a {type(section).__name__}")
    description = data.get("description") or ""
    if not isinstance(description, str):
        raise ConfigError("description", f"expected text, found a {type(description).__name__}")
    ours = {name: value for name, value in given.items() if name in ServerSettings.model_fields}
    groups = {name: value for name, value in given.items() if name in GroupSettings.model_fields}
    return Deployment(
        source=source,
        description=description,
        server=ServerSettings.resolve(ours, section or {}, "server."),
        group=_group(data, GroupSettings.resolve(groups, {})),
    )


def _read(preset: str | None, config: Path | None) -> tuple[str, dict[str, Any]]:
    if preset is not None and config is not None:
        raise ConfigError("--preset", "cannot be combined with a configuration file")
    if config is not None:
        return str(config), read_config(config)
    if preset is not None:
        text = preset_file(preset).read_text(encoding="utf-8")
        return f"preset {preset}", parse_config(text, f"preset {preset}")
    raise ConfigError(
        "--preset", "nothing to serve: give --preset NAME (see `trserve models`) or --config FILE"
    )


def _split_changes(
    data: dict[str, Any], given: dict[str, Any], changes: Sequence[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """`--set server.port=1` counts as `--port 1`; all other changes are made in the data."""
    rest = []
    for keys, value in map(parse_change, changes):
        match keys:
            case ["server", str(name)] if name in ServerSettings.model_fields:
                given.setdefault(name, value)
            case [str(name)] if name in GroupSettings.model_fields:
                given.setdefault(name, value)
            case _:
                rest.append((keys, value))
    return apply_changes(data, rest), given


def _group(data: dict[str, Any], settings: GroupSettings) -> GroupConfig:
    given = settings.model_dump(exclude_none=True)
    merged = {name: value for name, value in data.items() if name not in _OUR_SECTIONS} | given
    if merged.get("delayed_batching") is False:  # what a bare `off` is in YAML
        merged["delayed_batching"] = "off"
    for name in merged:
        if name not in GroupConfig.__struct_fields__:
            known = (*GroupConfig.__struct_fields__, *_OUR_SECTIONS)
            raise ConfigError(str(name), unknown(str(name), known))
    try:
        return group_config(merged)
    except ConfigError as error:
        raise _named(error) from error


def _named(error: ConfigError) -> ConfigError:
    """Of an unknown field msgspec names the object; name the field itself."""
    match = re.search(r"Object contains unknown field `(.+)`", str(error))
    if match is None:
        return error
    kind = re.sub(r"\[\d+\]", "", error.field)
    structs = {
        "models": (LlamaCppModel, ProfileModel, SglangModel),
        "models.sampling": (ModelSampling,),
        "router": (RouterConfig,),
    }.get(kind, ())
    known = [field for struct in structs for field in struct.__struct_fields__]
    return ConfigError(f"{error.field}.{match[1]}", unknown(match[1], known))
