"""Settings of the servers: declared here, once, whether by flag, variable or file.

A setting `port` is the flag `--port`, the variable `TRSERVE_PORT` and `port` in the file's
`server:` section. The few of the group's own settings that people change most (`GroupSettings`)
have flags and variables too; in the file they stand at the top level. A flag beats the variable,
which beats the file, which beats the default. `trserve.cli.setting_flags` makes the flags from
these fields, and a test compares the README's table with them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from msgspec.structs import fields
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator

from trsched.errors import ConfigError
from trsched.plan.config import DelayedBatching, GroupConfig, Mode, parse_bytes
from trsched.plan.sglang_model import LoadFormat
from trserve.settings.setting import ENV_PREFIX, Setting, Shown
from trserve.settings.unknown_setting import unknown

_GROUP_DEFAULTS = {field.name: field.default for field in fields(GroupConfig)}

Key = Annotated[SecretStr, Field(min_length=1)]


class Settings(BaseModel):
    """Some settings.

    section: where they stand in the file, with a dot.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    section: ClassVar[str] = ""

    @classmethod
    def settings(cls) -> dict[str, Setting]:
        """What they are, by name."""
        return {
            name: Setting(name, cls.section, field, cls.default_of(name))
            for name, field in cls.model_fields.items()
        }

    @classmethod
    def default_of(cls, name: str) -> object:
        """What holds if a setting is nowhere given."""
        return cls.model_fields[name].default

    @classmethod
    def from_environment(cls) -> dict[str, str]:
        """What variables say, by name."""
        given = {variable.upper(): value for variable, value in os.environ.items()}
        return {
            name: given[setting.variable]
            for name, setting in cls.settings().items()
            if setting.variable in given
        }

    @classmethod
    def resolve(cls, flags: Mapping[str, Any], file: Mapping[str, Any]) -> Self:
        """Merge flags (None: not given), environment and the file's section.

        Raises ConfigError naming the flag, the variable or the file's setting at fault.
        """
        flags = {name: value for name, value in flags.items() if value is not None}
        env = cls.from_environment()
        try:
            return cls.model_validate({**file, **env, **flags})
        except ValidationError as error:
            first = error.errors()[0]
            name = str(first["loc"][0])
            setting = cls.settings().get(name)
            if setting is None:
                complaint = unknown(name, cls.model_fields)
                raise ConfigError(f"{cls.section}{name}", complaint) from error
            place = setting.variable if name in env else setting.key
            message = first["msg"].removeprefix("Value error, ").removeprefix("Input ")
            if not setting.secret and not isinstance(first["input"], dict):
                message += f", not {first['input']!r}"
            raise ConfigError(setting.flag if name in flags else place, message) from error


class HttpSettings(Settings):
    """How an HTTP server runs."""

    section: ClassVar[str] = "server."

    host: Annotated[str, Shown("ADDRESS")] = Field(
        "127.0.0.1", min_length=1, description="address to listen on; 0.0.0.0 for all"
    )
    port: Annotated[int, Shown("PORT")] = Field(
        8000, ge=0, le=65535, description="port to listen on; 0 picks a free one"
    )
    api_key: Annotated[Key | None, Shown("KEY")] = Field(
        None, description="key that clients must send as `Authorization: Bearer KEY`"
    )
    request_timeout: Annotated[float | None, Shown("SECONDS", default="never")] = Field(
        None,
        gt=0,
        description="seconds after which a request ends with an error; also the most that a client "
        "may ask for",
    )
    max_body: Annotated[str | int, Shown("SIZE")] = Field(
        "4MiB", description="largest request body"
    )
    drain_timeout: Annotated[float, Shown("SECONDS")] = Field(
        30.0, ge=0, description="seconds that running requests may go on after the first Ctrl-C"
    )
    log_level: Annotated[Literal["debug", "info", "warning", "error"], Shown("LEVEL")] = Field(
        "info", description="least severe messages to log: `debug`, `info`, `warning` or `error`"
    )
    json_logs: Annotated[bool, Shown(off="--text-logs")] = Field(
        False, description="one JSON object per log line"
    )
    access_log: Annotated[bool, Shown(off="--no-access-log")] = Field(
        False, description="log every HTTP request"
    )
    ready_file: Annotated[Path | None, Shown("PATH")] = Field(
        None,
        description='for scripts: `{"url": …, "pid": …}` is written here in one step once the '
        "server is ready, and removed when it stops",
    )

    @field_validator("port", mode="before")
    @classmethod
    def _not_a_service_link(cls, value: object) -> object:
        if isinstance(value, str) and "://" in value:
            raise ValueError(
                "Kubernetes sets this variable for a service named trserve: "
                "rename the service or set enableServiceLinks to false"
            )
        return value

    @field_validator("max_body")
    @classmethod
    def _is_a_size(cls, value: str | int) -> str | int:
        try:
            parse_bytes(value, "max_body")
        except ConfigError as error:
            raise ValueError(error.message) from error
        return value

    @property
    def body_bytes(self) -> int:
        """`max_body` in bytes."""
        return parse_bytes(self.max_body, "max_body")


class ServerSettings(HttpSettings):
    """Of the server of a token-routed group."""

    served_name: Annotated[str | None, Shown("NAME", default="the group's name")] = Field(
        None, min_length=1, description="the name by which clients know the group"
    )


class GatewaySettings(HttpSettings):
    """Of the gateway."""

    admin_key: Annotated[Key | None, Shown("KEY")] = Field(
        None, description="opens `/admin` of the gateway, which without one answers to nobody"
    )
    keys_file: Annotated[Path | None, Shown("FILE")] = Field(
        None,
        description="the gateway's clients' keys, hashed, with their limits; see `trserve key`",
    )


class GroupSettings(Settings):
    """The group's settings that have flags and variables; None leaves the file's value."""

    context: Annotated[int | None, Shown("TOKENS")] = Field(
        None, description="most tokens of one request, prompt and answer together"
    )
    kv_memory: Annotated[str | int | None, Shown("SIZE")] = Field(
        None,
        description="memory for the KV caches of all models together; `auto` (all models on "
        "SGLang): what the GPUs have left",
    )
    max_active: Annotated[int | None, Shown("N", default="as many as fit")] = Field(
        None, description="requests served at the same time"
    )
    max_queue: Annotated[int | None, Shown("N")] = Field(
        None, description="requests that may wait for their turn"
    )
    mode: Annotated[Mode | None, Shown("MODE")] = Field(
        None,
        description="to compare with `routed`: `llm-only` and `slm-only` (that model alone, with "
        "the whole KV budget), `official` (one request after another, as the algorithms' own code "
        "runs)",
    )
    delayed_batching: Annotated[DelayedBatching | None, Shown("HOW")] = Field(
        None,
        description="`auto`: the thresholds B are found while serving, from where each model's "
        "`threshold` starts; `fixed`: those stay; `off`: every batch starts at once",
    )
    load_format: Annotated[LoadFormat | None, Shown("HOW", default="each model's own")] = Field(
        None,
        description="of all models on SGLang: `auto`, `safetensors`, or `dummy`: made-up weights, "
        "nothing is downloaded",
    )

    @field_validator("delayed_batching", mode="before")
    @classmethod
    def _off_in_yaml(cls, value: object) -> object:
        return "off" if value is False else value

    @classmethod
    def default_of(cls, name: str) -> object:
        """The group's own."""
        return _GROUP_DEFAULTS[name]


ALL_SETTINGS = ServerSettings.settings() | GatewaySettings.settings() | GroupSettings.settings()
"""Every setting that has a flag and a variable, by name, as the README lists them."""


def unknown_variables(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Variables that look like ours but set nothing, with what to say about each."""
    known = [setting.variable for setting in ALL_SETTINGS.values()]
    return {
        name: unknown(name, known)
        for name in sorted(environ)
        if name.upper().startswith(ENV_PREFIX) and name.upper() not in known
    }
