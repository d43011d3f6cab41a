"""What one command line asks for: a preset or a file, changed by flags and environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trsched.errors import ConfigError
from trsched.plan.config import GroupConfig, LlamaCppModel, ProfileModel, RouterConfig, group_config
from trsched.plan.sglang_model import SglangModel
from trsched.request import ModelSampling
from trserve.presets import preset_file
from trserve.settings.changes import apply_changes, parse_change
from trserve.settings.config_file import parse_config, read_config
from trserve.settings.origin import Origin
from trserve.settings.server_settings import GroupSettings, ServerSettings
from trserve.settings.unknown_setting import naming_unknown_field, unknown
from trserve.settings.yaml_file import YamlFile

_OUR_SECTIONS = ("server", "description")
_STRUCTS = {
    "models": (LlamaCppModel, ProfileModel, SglangModel),
    "models.sampling": (ModelSampling,),
    "router": (RouterConfig,),
}

Changes = list[tuple[list[str | int], Any]]


@dataclass(frozen=True, slots=True)
class Deployment:
    """A group and how to serve it.

    source: `preset NAME` or the file.
    origin: where its settings came from.
    """

    source: str
    description: str
    server: ServerSettings
    group: GroupConfig
    origin: Origin


def load_deployment(
    *,
    preset: str | None = None,
    config: Path | None = None,
    flags: Mapping[str, Any] | None = None,
    changes: Sequence[str] = (),
) -> Deployment:
    """Read, merge and check everything that can be checked from the text alone.

    flags: settings by name, None for those not given. changes: `KEY=VALUE` texts, which count as
    flags. Raises ConfigError naming the field, and where it stands if that is in the file.
    """
    file = _read(preset, config)
    given = {name: value for name, value in (flags or {}).items() if value is not None}
    given, rest = _split_changes(given, changes)
    ours = {name: value for name, value in given.items() if name in ServerSettings.model_fields}
    groups = {name: value for name, value in given.items() if name in GroupSettings.model_fields}
    origin = Origin(
        None if config is None else file,
        [
            *(keys for keys, _ in rest),
            *(("server", name) for name in (*ours, *ServerSettings.from_environment())),
            *((name,) for name in (*groups, *GroupSettings.from_environment())),
        ],
    )
    with origin.locating():
        data = apply_changes(file.data, rest)
        section = data.get("server")
        if section is not None and not isinstance(section, dict):
            raise ConfigError("server", f"expected settings, found a {type(section).__name__}")
        description = data.get("description") or ""
        if not isinstance(description, str):
            raise ConfigError("description", f"expected text, found a {type(description).__name__}")
        return Deployment(
            source=f"preset {preset}" if config is None else str(config),
            description=description,
            server=ServerSettings.resolve(ours, section or {}),
            group=_group(data, GroupSettings.resolve(groups, {})),
            origin=origin,
        )


def _read(preset: str | None, config: Path | None) -> YamlFile:
    if preset is not None and config is not None:
        raise ConfigError("--preset", "cannot be combined with a configuration file")
    if config is not None:
        return read_config(config)
    if preset is not None:
        text = preset_file(preset).read_text(encoding="utf-8")
        return parse_config(text, f"config preset {preset}")
    raise ConfigError(
        "--preset", "nothing to serve: give --preset NAME (see `trserve models`) or --config FILE"
    )


def _split_changes(given: dict[str, Any], changes: Sequence[str]) -> tuple[dict[str, Any], Changes]:
    """`--set server.port=1` counts as `--port 1`; all other changes are made in the data."""
    flags: dict[str, Any] = {}
    rest = []
    for keys, value in map(parse_change, changes):
        match keys:
            case ["server", str(name)] if name in ServerSettings.model_fields:
                flags.setdefault(name, value)
            case [str(name)] if name in GroupSettings.model_fields:
                flags.setdefault(name, value)
            case _:
                rest.append((keys, value))
    return flags | given, rest


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
        raise naming_unknown_field(error, _STRUCTS) from error
