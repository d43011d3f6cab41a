"""Where settings come from: flag over environment over file over default."""

from __future__ import annotations

import pytest

from tests.support.trserve.process_state import clear_variables
from trsched.errors import ConfigError
from trserve.settings.server_settings import (
    GatewaySettings,
    GroupSettings,
    ServerSettings,
    unknown_variables,
)


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch):
    clear_variables(monkeypatch)


def resolve(flags=None, file=None):
    return ServerSettings.resolve(flags or {}, file or {})


def test_defaults():
    settings = resolve()
    assert (settings.host, settings.port, settings.api_key) == ("127.0.0.1", 8000, None)
    assert settings.drain_timeout == 30.0


@pytest.mark.parametrize(
    ("flag", "variable", "file", "expected"),
    [
        (1, "2", 3, 1),
        (None, "2", 3, 2),
        (None, None, 3, 3),
        (None, None, None, 8000),
        (1, None, None, 1),
        (0, "2", None, 0),
    ],
)
def test_precedence(monkeypatch, flag, variable, file, expected):
    if variable is not None:
        monkeypatch.setenv("TRSERVE_PORT", variable)
    assert resolve({"port": flag}, {} if file is None else {"port": file}).port == expected


@pytest.mark.parametrize(
    ("name", "variable", "value"),
    [
        ("host", "0.0.0.0", "0.0.0.0"),
        ("port", "81", 81),
        ("served_name", "m", "m"),
        ("request_timeout", "2.5", 2.5),
        ("drain_timeout", "0", 0.0),
        ("log_level", "debug", "debug"),
        ("json_logs", "true", True),
        ("access_log", "1", True),
    ],
)
def test_every_setting_has_a_variable(monkeypatch, name, variable, value):
    monkeypatch.setenv(f"TRSERVE_{name.upper()}", variable)
    assert getattr(resolve(), name) == value


def test_the_key_is_not_shown(monkeypatch):
    monkeypatch.setenv("TRSERVE_API_KEY", "secret-key")
    settings = resolve()
    assert settings.api_key is not None
    assert settings.api_key.get_secret_value() == "secret-key"
    assert "secret-key" not in repr(settings)
    assert "secret-key" not in settings.model_dump_json()


def test_group_settings(monkeypatch):
    monkeypatch.setenv("TRSERVE_KV_MEMORY", "2GiB")
    monkeypatch.setenv("TRSERVE_MAX_ACTIVE", "3")
    settings = GroupSettings.resolve({"max_active": 5}, {})
    assert settings.model_dump(exclude_none=True) == {"kv_memory": "2GiB", "max_active": 5}


@pytest.mark.parametrize(
    ("flags", "variables", "file", "field", "message"),
    [
        ({"port": 70000}, {}, {}, "--port", "less than or equal to 65535, not 70000"),
        ({}, {"TRSERVE_PORT": "many"}, {}, "TRSERVE_PORT", "integer"),
        ({}, {"TRSERVE_PORT": "tcp://10.0.0.1:80"}, {}, "TRSERVE_PORT", "enableServiceLinks"),
        ({}, {"TRSERVE_API_KEY": ""}, {}, "TRSERVE_API_KEY", "at least 1"),
        ({}, {"TRSERVE_JSON_LOGS": "maybe"}, {}, "TRSERVE_JSON_LOGS", "boolean"),
        ({}, {}, {"port": "x"}, "server.port", "integer"),
        ({}, {}, {"port": None}, "server.port", "integer"),
        ({}, {}, {"host": ""}, "server.host", "at least 1"),
        ({}, {}, {"prot": 1}, "server.prot", "did you mean 'port'?"),
        ({}, {}, {"qqqqqq": 1}, "server.qqqqqq", "unknown setting"),
        ({}, {}, {1: 2}, "server.1", "unknown setting"),
        ({}, {}, {"drain_timeout": -1}, "server.drain_timeout", "greater than or equal to 0"),
        ({"log_level": "loud"}, {}, {}, "--log-level", "'debug', 'info', 'warning' or 'error'"),
        ({"request_timeout": 0}, {}, {}, "--request-timeout", "greater than 0"),
    ],
)
def test_refusal_names_the_place(monkeypatch, flags, variables, file, field, message):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError) as caught:
        resolve(flags, file)
    assert caught.value.field == field
    assert message in str(caught.value)


@pytest.mark.parametrize("name", ["api_key", "admin_key"])
def test_a_wrong_key_is_not_repeated(name):
    with pytest.raises(ConfigError) as caught:
        GatewaySettings.resolve({}, {name: ["secret-key"]})
    assert caught.value.field == f"server.{name}"
    assert "secret-key" not in str(caught.value)


def test_unknown_variables_are_noticed():
    environ = {"TRSERVE_PROT": "1", "TRSERVE_PORT": "1", "PATH": "/bin", "TRSERVE_XYZXYZ": ""}
    complaints = unknown_variables(environ)
    assert list(complaints) == ["TRSERVE_PROT", "TRSERVE_XYZXYZ"]
    assert "TRSERVE_PORT" in complaints["TRSERVE_PROT"]
