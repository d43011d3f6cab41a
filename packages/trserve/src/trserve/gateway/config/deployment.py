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
from trserve.gateway.config.lines import line_of
from trserve.settings.config_file import apply_changes, parse_change, parse_config, read_text
from trserve.settings.server_settings import GatewaySettings


@dataclass(frozen=True, slots=True)
class GatewayDeployment:
    """A gateway's configuration and how to serve it; `reread` takes the same file again."""

    path: Path
    server: GatewaySettings
    gateway: GatewayConfig
    flags: Mapping[str, Any]
    changes: Sequence[str]

    def reread(self) -> GatewayDeployment:
        """As the file is now. Raises ConfigError."""
        return load_gateway(self.path, self.flags, self.changes)

    def located(self, error: ConfigError) -> ConfigError:
        """An error that was found later, with the file and the line of its field if it has one."""
        return _located(self.path, read_text(self.path), error)


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
    ConfigError naming the file, the line and the field.
    """
    text = read_text(path)
    flags = flags or {}
    try:
        data = apply_changes(parse_config(text, str(path)), map(parse_change, changes))
        section = data.pop("server", None) or {}
        if not isinstance(section, dict):
            raise ConfigError("server", f"expected settings, found a {type(section).__name__}")
        server = GatewaySettings.resolve(flags, section, "server.")
        gateway = _anchored(gateway_config(data), path.parent)
    except ConfigError as error:
        raise _located(path, text, error) from error
    return GatewayDeployment(path, server, gateway, flags, tuple(changes))


def _located(path: Path, text: str, error: ConfigError) -> ConfigError:
    line = line_of(text, error.field)
    if line is None:
        return error
    return ConfigError(f"config {path} line {line}: {error.field}", error.message)


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
