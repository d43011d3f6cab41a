"""Errors say where in the file a setting stands, unless it came from elsewhere."""

from __future__ import annotations

import pytest

from tests.support.trserve.process_state import clear_variables
from trsched.errors import ConfigError
from trserve.server.deployment import load_deployment
from trserve.settings.origin import Origin
from trserve.settings.yaml_file import parse_yaml

TEXT = """
name: mine
models:
  - {engine: profile, name: small, step_ms: [1.0]}
router: {name: fixed}
context: 64
server: {port: 1}
"""


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch):
    clear_variables(monkeypatch)


@pytest.mark.parametrize(
    ("flags", "variable", "changes", "field", "place"),
    [
        ({}, None, [], "context", "line 6 column 1"),
        ({"context": 32}, None, [], "context", None),
        ({}, "TRSERVE_CONTEXT", [], "context", None),
        ({}, None, ["context=32"], "context", None),
        ({}, None, [], "server.port", "line 7 column 10"),
        ({"port": 2}, None, [], "server.port", None),
        ({}, "TRSERVE_PORT", [], "server.port", None),
        ({"port": 2}, None, [], "context", "line 6 column 1"),
        ({}, None, ["models[0].step_ms=[2]"], "models[0].step_ms", None),
        ({}, None, ["models[0].step_ms=[2]"], "models[0]", None),
        ({}, None, ["models[0].threshold=1"], "models[].threshold", None),
        ({}, None, ["models[0].threshold=1"], "models[0].name", "line 4 column 23"),
        ({}, None, ["router={name: fixed}"], "router.name", None),
        ({}, None, [], "kv_memory", None),
    ],
)
def test_what_was_given_elsewhere_is_not_sought_in_the_file(
    tmp_path, monkeypatch, flags, variable, changes, field, place
):
    path = tmp_path / "mine.yaml"
    path.write_text(TEXT)
    if variable is not None:
        monkeypatch.setenv(variable, "32")
    deployment = load_deployment(config=path, flags=flags, changes=changes)
    located = deployment.origin.located(ConfigError(field, "is wrong"))
    prefix = "" if place is None else f"config {path} {place}: "
    assert str(located) == f"{prefix}{field}: is wrong"


def test_a_preset_is_nobodys_to_correct():
    error = ConfigError("context", "is wrong")
    assert load_deployment(preset="profile-demo").origin.located(error) is error


def test_what_is_located_already_stays():
    origin = Origin(parse_yaml(TEXT, "config f"))
    with pytest.raises(ConfigError) as caught, origin.locating(), origin.locating():
        raise ConfigError("server.port", "is in use")
    assert str(caught.value) == "config f line 7 column 10: server.port: is in use"
