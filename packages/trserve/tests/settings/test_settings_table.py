"""The README's table of settings is the settings."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

from trsched.plan.config import GroupConfig
from trserve.settings.server_settings import GatewaySettings, GroupSettings, ServerSettings

SERVER = ServerSettings.model_fields | GatewaySettings.model_fields

ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (Path(__file__).parents[2] / "README.md").read_text("utf-8").splitlines()
    if line.startswith("| `--")
]


def test_every_setting_has_its_row():
    names = [*SERVER, *GroupSettings.model_fields]
    assert [row[0] for row in ROWS] == [f"`--{name.replace('_', '-')}`" for name in names]
    assert [row[1] for row in ROWS] == [f"`TRSERVE_{name.upper()}`" for name in names]
    prefixes = ["server."] * len(SERVER) + [""] * len(GroupSettings.model_fields)
    assert [row[2] for row in ROWS] == [f"`{p}{n}`" for p, n in zip(prefixes, names, strict=True)]


def test_defaults():
    defaults = {name: field.default for name, field in SERVER.items()}
    fields = msgspec.structs.fields(GroupConfig)
    defaults |= {f.name: f.default for f in fields if f.name in GroupSettings.model_fields}
    for row in ROWS:
        name = row[2].strip("`").removeprefix("server.")
        value = defaults[name]
        if value is not None:
            shown = value if isinstance(value, str) else json.dumps(value)
            assert row[3] == f"`{shown}`", name
