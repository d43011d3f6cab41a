"""One `trserve gateway` command line: a file, changed by flags and environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from trsched.errors import ConfigError
from trserve.gateway.config.checks import gateway_config
from trserve.gateway.config.config import GatewayConfig
from trserve.settings.changes import apply_changes, parse_change
from trserve.settings.config_file import checked_mapping
from trserve.settings.origin import Origin
from trserve.settings.server_settings import GatewaySettings
from trserve.settings.yaml_file import read_yaml


@dataclass(frozen=True, slots=True)
class GatewayDeployment:
    """A gateway's configuration and how to serve it.

    path: the file.
    flags: settings by name, None for those not given.
    changes: `KEY=VALUE` texts.
    origin: where its settings came from.
    """

    path: Path
    server: GatewaySettings
    gateway: GatewayConfig
    flags: Mapping[str, Any]
    changes: Sequence[str]
    origin: Origin

    def reread(self) -> GatewayDeployment:
        """As the file is now. Raises ConfigError."""
        return load_gateway(self.path, self.flags, self.changes)


def config_file(given: Path | None, *, demo: bool) -> Path:
    """The file that was asked for. Raises ConfigError: none, or two."""
    if demo == (given is not None):
        raise ConfigError("--config", "give either --config FILE or --demo")
    return given or Path(__file__).with_name("demo.yaml")


def load_gateway(
    path: Path, flags: Mapping[str, Any] | None = None, changes: Sequence[str] = ()
) -> GatewayDeployment:
    """Read and check everything that can be checked from the text alone.

    flags: settings by name, None for those not given. changes: `KEY=VALUE` texts. Raises
    ConfigError naming the field, and file, line and column if it stands there.
    """
    file = checked_mapping(read_yaml(path, "config"))
    flags = flags or {}
    parsed = [parse_change(change) for change in changes]
    named = [name for name, value in flags.items() if value is not None]
    server_keys = [("server", name) for name in (*named, *GatewaySettings.from_environment())]
    origin = Origin(file, [*(keys for keys, _ in parsed), *server_keys])
    with origin.locating():
        data = apply_changes(file.data, parsed)
        section = data.get("server") or {}
        if not isinstance(section, dict):
            raise ConfigError("server", f"expected settings, found a {type(section).__name__}")
        server = GatewaySettings.resolve(flags, section)
        rest = {name: value for name, value in data.items() if name != "server"}
        gateway = _anchored(gateway_config(rest), path.parent)
    return GatewayDeployment(path, server, gateway, flags, tuple(changes), origin)


def _anchored(config: GatewayConfig, folder: Path) -> GatewayConfig:
    """With paths relative to the file's folder, or to a home."""

    def anchor(path: str) -> str:
        try:
            return str(folder / Path(path).expanduser())
        except RuntimeError:  # of nobody's home
            return path

    groups = [
        group
        if group.config is None
        else msgspec.structs.replace(group, config=anchor(group.config))
        for group in config.groups
    ]
    return msgspec.structs.replace(
        config,
        groups=groups,
        predictor=config.predictor if config.predictor == "none" else anchor(config.predictor),
        tpot=config.tpot if config.tpot in ("static", "online") else anchor(config.tpot),
    )
