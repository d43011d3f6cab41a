"""Settings of the server, from four places: flag, environment, file, default, in this order.

A setting `port` is the flag `--port`, the variable `TRSERVE_PORT` and `port` in the file's
`server:` section. The few of the group's own settings that people change most (`GroupSettings`)
have flags and variables too; in the file they stand at the top level.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from trsched.errors import ConfigError
from trsched.plan.config import DelayedBatching, Mode, parse_bytes
from trsched.plan.sglang_model import LoadFormat

ENV_PREFIX = "TRSERVE_"


class _Settings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix=ENV_PREFIX, extra="forbid", frozen=True)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only what is passed: `resolve` merges the sources and so can name the one at fault."""
        return (init_settings,)

    @classmethod
    def resolve(cls, flags: Mapping[str, Any], file: Mapping[str, Any], section: str = "") -> Self:
        """Merge flags (None: not given), environment and the file's section.

        Raises ConfigError naming the flag, the variable or the file's setting at fault.
        """
        flags = {name: value for name, value in flags.items() if value is not None}
        env = EnvSettingsSource(cls)()
        try:
            return cls(**{**file, **env, **flags})
        except ValidationError as error:
            first = error.errors()[0]
            name = str(first["loc"][0])
            if first["type"] == "extra_forbidden":
                raise ConfigError(f"{section}{name}", unknown(name, cls.model_fields)) from error
            if name in flags:
                field = "--" + name.replace("_", "-")
            else:
                field = ENV_PREFIX + name.upper() if name in env else f"{section}{name}"
            raise ConfigError(field, _complaint(first["msg"], name, first["input"])) from error


class HttpSettings(_Settings):
    """How an HTTP server runs. Times are in seconds."""

    host: str = Field("127.0.0.1", min_length=1, description="address to listen on")
    port: int = Field(8000, ge=0, le=65535, description="port to listen on, 0 picks a free one")
    api_key: Annotated[SecretStr, Field(min_length=1)] | None = Field(
        None, description="key that clients must send as `Authorization: Bearer KEY`"
    )
    request_timeout: float | None = Field(
        None, gt=0, description="a request that takes longer ends with an error"
    )
    max_body: str | int = Field("4MiB", description="largest request body, e.g. 512KiB")
    drain_timeout: float = Field(
        30.0, ge=0, description="how long a stopping server lets running requests finish"
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="least severe messages to log"
    )
    json_logs: bool = Field(False, description="one JSON object per log line")
    access_log: bool = Field(False, description="log every HTTP request")
    ready_file: Path | None = Field(
        None, description="written once the server is ready, JSON with `url` and `pid`"
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
            raise ValueError(str(error).removeprefix("max_body: ")) from error
        return value

    @property
    def body_bytes(self) -> int:
        """`max_body` in bytes."""
        return parse_bytes(self.max_body, "max_body")


class ServerSettings(HttpSettings):
    """Of the server of a token-routed group."""

    served_name: str | None = Field(
        None, min_length=1, description="the model's name for clients (default: the group's name)"
    )


class GatewaySettings(HttpSettings):
    """Of the gateway."""

    admin_key: Annotated[SecretStr, Field(min_length=1)] | None = Field(
        None, description="key for /admin; without one /admin answers to nobody"
    )
    keys_file: Path | None = Field(
        None, description="clients' keys, hashed, with their limits; see `trserve key`"
    )


class GroupSettings(_Settings):
    """The group's settings that have flags and variables; None leaves the file's value."""

    context: int | None = Field(None, description="most tokens of one request, prompt and output")
    kv_memory: str | int | None = Field(
        None, description="memory for the KV caches of all models together, e.g. 1GiB, or `auto`"
    )
    max_active: int | None = Field(None, description="requests served at the same time")
    max_queue: int | None = Field(None, description="requests that may wait for admission")
    mode: Mode | None = Field(None, description="`routed`, or a mode that routing is compared with")
    delayed_batching: DelayedBatching | None = Field(None, description="`auto`, `fixed` or `off`")
    load_format: LoadFormat | None = Field(
        None, description="how models on SGLang are loaded, e.g. `dummy` without their weights"
    )

    @field_validator("delayed_batching", mode="before")
    @classmethod
    def _off_in_yaml(cls, value: object) -> object:
        return "off" if value is False else value


def unknown_variables(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Variables that look like ours but set nothing, with what to say about each."""
    known = [ENV_PREFIX + name.upper() for name in known_settings()]
    return {
        name: unknown(name, known)
        for name in sorted(environ)
        if name.upper().startswith(ENV_PREFIX) and name.upper() not in known
    }


def known_settings() -> list[str]:
    """Names of all settings that have flags and variables."""
    fields = [ServerSettings.model_fields, GatewaySettings.model_fields, GroupSettings.model_fields]
    return list(dict.fromkeys(name for each in fields for name in each))


def unknown(name: str, known: Mapping[str, Any] | list[str] | tuple[str, ...]) -> str:
    """What to say of a setting that does not exist, with the closest that does."""
    close = get_close_matches(name, list(known), n=1)
    return f"unknown setting, did you mean {close[0]!r}?" if close else "unknown setting"


def _complaint(message: str, name: str, value: object) -> str:
    text = message.removeprefix("Value error, ").removeprefix("Input ")
    shown = (
        "" if name in ("api_key", "admin_key") or isinstance(value, dict) else f", not {value!r}"
    )
    return text + shown
