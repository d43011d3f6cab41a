"""Flags are the settings' fields: all of them, with their types, texts and defaults."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from trserve.cli.main import app
from trserve.cli.setting_flags import takes_settings
from trserve.settings.server_settings import (
    ALL_SETTINGS,
    GatewaySettings,
    GroupSettings,
    ServerSettings,
    Settings,
)


def given(*arguments: str) -> dict[str, Any]:
    """What a command gets."""
    toy = typer.Typer()
    seen: dict[str, Any] = {}

    @toy.command()
    @takes_settings(ServerSettings, GroupSettings)
    def command(name: str = "", *, flags: dict[str, Any], last: bool = False) -> int:
        seen.update(flags, name=name, last=last)
        return 0

    toy(list(arguments), standalone_mode=False)
    return seen


def test_nothing_given_is_none() -> None:
    seen = given("--name", "a", "--last")
    assert (seen.pop("name"), seen.pop("last")) == ("a", True)
    assert seen == dict.fromkeys([*ServerSettings.model_fields, *GroupSettings.model_fields])


@pytest.mark.parametrize(
    ("arguments", "name", "value"),
    [
        (["--port", "7"], "port", 7),
        (["--drain-timeout", "0.5"], "drain_timeout", 0.5),
        (["--ready-file", "x"], "ready_file", Path("x")),
        (["--json-logs"], "json_logs", True),
        (["--text-logs"], "json_logs", False),
        (["--no-access-log"], "access_log", False),
        (["--max-body", "512"], "max_body", "512"),
        (["--kv-memory", "auto"], "kv_memory", "auto"),
        (["--context", "64"], "context", 64),
        (["--mode", "official"], "mode", "official"),
        (["--api-key", "k"], "api_key", "k"),
    ],
)
def test_a_flag_is_read_as_its_setting(arguments: list[str], name: str, value: object) -> None:
    assert given(*arguments)[name] == value


@pytest.mark.parametrize(
    ("command", "models"),
    [
        ("launch", [ServerSettings, GroupSettings]),
        ("chat", [GroupSettings]),
        ("check", [GroupSettings]),
        ("gateway", [GatewaySettings]),
    ],
)
def test_help_has_every_setting(command: str, models: list[type[Settings]]) -> None:
    output = CliRunner().invoke(app, [command, "--help"]).output
    text = " ".join(output.split())
    for model in models:
        for setting in model.settings().values():
            assert f"{setting.flag} " in text
            if setting.default is not None and not isinstance(setting.default, bool):
                assert f"[default: {setting.default_text}]" in text
            if setting.secret:
                assert f"variable {setting.variable}:" in text


def test_secrets_are_known_as_such() -> None:
    secrets = {name for name, setting in ALL_SETTINGS.items() if setting.secret}
    assert secrets == {"api_key", "admin_key"}
