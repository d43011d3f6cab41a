"""Every bad configuration is exit status 2 and one line that names the field."""

from __future__ import annotations

import json
import socket

import pytest

from tests.support.trserve.process_state import clear_variables, kept_logging
from trserve.cli.main import main

GROUP = """
name: mine
models:
  - {engine: profile, name: small, step_ms: [1.0]}
  - {engine: profile, name: large, step_ms: [2.0]}
router: {name: bernoulli}
context: 64
kv_memory: 1MiB
server: {port: 0}
"""
ROUTER = "router={name: %s, settings: {%s}}"
CHECKPOINT = ROUTER % ("co_llm", "checkpoint: {folder}/%s")
GGUF = "models[0]={engine: llamacpp, name: a, path: %s}"


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch):
    clear_variables(monkeypatch)


@pytest.fixture(autouse=True)
def own_logging():
    with kept_logging():
        yield


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(GROUP)
    (tmp_path / "wrong.gguf").write_bytes(b"GGUF" + bytes(100))
    (tmp_path / "text.gguf").write_text("not a model at all")
    (tmp_path / "empty.gguf").touch()
    write_checkpoints(tmp_path)
    return path


def write_checkpoints(folder):
    """Trained routers, one of the right form and others of wrong ones."""
    pair = [{"name": "small", "fingerprint": "gguf-1"}, {"name": "huge", "fingerprint": None}]
    good = {
        "format": "trrouters-1",
        "algorithm": "co_llm",
        "architecture": {"hidden_size": 8},
        "threshold": 0.5,
        "pair": pair,
    }
    no_tensors = (2).to_bytes(8, "little") + b"{}"
    configs = {
        "other_pair": good,
        "own_pair": good | {"pair": [{"name": "small"}, {"name": "large"}]},
        "newer": good | {"format": "trrouters-9"},
        "of_citer": good | {"algorithm": "citer"},
        "unknown": good | {"colour": "red"},
        "sure": good | {"threshold": 1.5},
        "pickled": good,
        "half": good,
    }
    for name, config in configs.items():
        (folder / name).mkdir()
        (folder / name / "router.json").write_text(json.dumps(config))
        (folder / name / "router.safetensors").write_bytes(no_tensors)
    (folder / "pickled" / "router.safetensors").write_bytes(b"\x80\x04K\x01.")
    (folder / "half" / "router.safetensors").unlink()
    (folder / "garbled").mkdir()
    (folder / "garbled" / "router.json").write_bytes(b'{"format": \xff')
    (folder / "bare").mkdir()


def refused(capsys, *arguments):
    status = main([str(argument) for argument in arguments])
    output, error = capsys.readouterr()
    assert (status, output) == (2, "")
    assert error.startswith("trserve: ")
    assert error.count("\n") == 1
    return error.removeprefix("trserve: ")


CASES = [
    ("router.name=r_stich", "router.name: ", "r_stitch"),
    ("router.name=r_stitch", "router.name: ", "logits"),
    ("router.settings.nothing=1", "router.settings: ", "'nothing'"),
    ("router.settings.p=2", "router.settings: ", "p must be a probability"),
    ("router.settings=3", "router.settings: ", "object"),
    (CHECKPOINT % "none", "router.settings: ", "/none"),
    (CHECKPOINT % "bare", "router.settings: ", "bare/router.json: No such file"),
    (CHECKPOINT % "mine.yaml", "router.settings: ", "mine.yaml/router.json: Not a directory"),
    (CHECKPOINT % "garbled", "router.settings: ", "garbled/router.json: "),
    (CHECKPOINT % "newer", "router.settings: ", "'trrouters-9' is not 'trrouters-1'"),
    (CHECKPOINT % "unknown", "router.settings: ", "colour"),
    (CHECKPOINT % "sure", "router.settings: ", "threshold must be from 0 to 1"),
    (CHECKPOINT % "of_citer", "router.settings: ", "of_citer is a 'citer' router, not 'co_llm'"),
    (CHECKPOINT % "half", "router.settings: ", "half/router.safetensors: No such file"),
    (CHECKPOINT % "pickled", "router.settings: ", "is not a safetensors file"),
    (CHECKPOINT % "own_pair", "router.settings: ", "row.bias"),
    (CHECKPOINT % "other_pair", "router.settings: ", "small (gguf-1) + huge, not for small (prof"),
    (ROUTER % ("r2r", ""), "router.settings: ", "'checkpoint'"),
    (ROUTER % ("r2r", "checkpoint: 3"), "router.settings: ", "checkpoint: Expected `str`"),
    (ROUTER % ("citer", "checkpoint: package://none/r"), "router.settings: ", "'none' is not ins"),
    (ROUTER % ("co_llm", ""), "router.settings: ", "threshold is needed"),
    (ROUTER % ("co_llm", "threshold: .nan"), "router.settings: ", "threshold must be from 0 to 1"),
    (ROUTER % ("co_llm", "threshold: 0.5"), "router.name: ", "needs extra_logits"),
    (GGUF % "{folder}/none.gguf", "models[0].path: ", "no such file"),
    (GGUF % "{folder}", "models[0].path: ", "no such file"),
    (GGUF % "{folder}/wrong.gguf", "models[0].path: ", "wrong.gguf"),
    (GGUF % "{folder}/text.gguf", "models[0].path: ", "text.gguf"),
    (GGUF % "{folder}/empty.gguf", "models[0].path: ", "empty.gguf"),
    (GGUF % "package://no_such_package/m.gguf", "models[0].path: ", "no-such-package"),
    (GGUF % "package://trserve/models/none.gguf", "models[0].path: ", "none.gguf"),
    (GGUF % "package://nonsense", "models[0].path: ", "package://PACKAGE/FILE"),
    ("models[1].vocab_size=300", "models[1]: ", "'large' and 'small' have different"),
    ("models[1].threshold=500", "models[1].threshold: ", "500"),
    ("models[1].threshold=0", "models[1].threshold: ", "at least 1"),
    ("models[1].threshold=two", "models[1].threshold: ", "int"),
    (GGUF.replace("}", ", deferral_row: 2}") % "x", "models[0].deferral_row: ", "bool"),
    ("models[0].deferral_row=true", "models[0].deferral_row: ", "unknown setting"),
    ("models[1].engine=vulcan", "models[1].engine: ", "vulcan"),
    ("models[1].treshold=2", "models[1].treshold: ", "did you mean 'threshold'?"),
    ("models[5].threshold=2", "--set models[5]: ", "there are 2"),
    ("kv_memory=1KiB", "kv_memory: ", "cannot hold one request"),
    ("kv_memory=plenty", "kv_memory: ", "not a size"),
    ("context=0", "context: ", "at least 8"),
    ("context=long", "--context: ", "integer"),
    ("contxt=3", "contxt: ", "did you mean 'context'?"),
    ("on_peer_death=panic", "on_peer_death: ", "panic"),
    ("on_router_error=panic", "on_router_error: ", "panic"),
    ("server.port=-1", "--port: ", "greater than or equal to 0"),
    ("server.prot=1", "server.prot: ", "did you mean 'port'?"),
    ("server.host=256.0.0.1", "server.host: ", "256.0.0.1"),
    ("server.max_body=big", "--max-body: ", "not a size"),
]


@pytest.mark.parametrize("command", ["check", "launch"])
@pytest.mark.parametrize(("change", "field", "message"), CASES)
def test_settings(capsys, config, command, change, field, message):
    change = change.replace("{folder}", str(config.parent))
    file = [config] if command == "check" else ["--config", config]
    error = refused(capsys, command, *file, "--set", change)
    assert error.startswith(field)
    assert message in error


@pytest.mark.parametrize("command", ["check", "launch"])
def test_thresholds_that_deadlock(capsys, config, command):
    changes = ["models[0].threshold=2", "models[1].threshold=2", "max_active=2"]
    file = [config] if command == "check" else ["--config", config]
    error = refused(capsys, command, *file, *(part for c in changes for part in ("--set", c)))
    assert error.startswith("models[].threshold: ")
    assert "can deadlock" in error


@pytest.mark.parametrize("command", ["check", "launch"])
def test_ensembles_cannot_go_on_without_their_router(capsys, config, command):
    file = [config] if command == "check" else ["--config", config]
    changes = ["--set", "router.name=me", "--set", "on_router_error=continue"]
    error = refused(capsys, command, *file, *changes)
    assert error.startswith("on_router_error: ")
    assert "'me'" in error


@pytest.mark.parametrize("command", ["check", "launch", "chat"])
def test_unknown_preset(capsys, command):
    error = refused(capsys, command, "--preset", "smol-rstich")
    assert error.startswith("preset: ")
    assert "did you mean 'smol-rstitch'?" in error
    assert "profile-demo" in error


@pytest.mark.parametrize("command", ["check", "launch"])
def test_port_in_use(capsys, config, command):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        file = [config] if command == "check" else ["--config", config]
        error = refused(capsys, command, *file, "--set", f"server.port={port}")
    assert error.startswith(f"server.port: {port} is in use")


@pytest.mark.parametrize(
    ("text", "field", "message"),
    [
        ("models: [", "config {path} line 1 column 10: ", ""),
        (GROUP + "context: 3\n", "config {path} line ", "'context' is given twice"),
        ("", "config {path}: ", "expected settings"),
        ("- 1", "config {path}: ", "list"),
        ("name: x", "configuration: ", "models"),
        (GROUP + "extra: 1", "config {path} line 10 column 1: extra: ", "unknown setting"),
        (
            GROUP.replace("[1.0]", "fast"),
            "config {path} line 4 column 36: models[0].step_ms: ",
            "array",
        ),
        (
            GROUP.replace("port: 0", "port: [1]"),
            "config {path} line 9 column 10: server.port: ",
            "integer",
        ),
    ],
)
def test_files(capsys, config, text, field, message):
    config.write_text(text)
    error = refused(capsys, "check", config)
    assert error.startswith(field.format(path=config))
    assert message in error


def test_variables(capsys, config, monkeypatch):
    monkeypatch.setenv("TRSERVE_DRAIN_TIMEOUT", "soon")
    assert refused(capsys, "check", config).startswith("TRSERVE_DRAIN_TIMEOUT: ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["launch"], "nothing to serve"),
        (["launch", "--preset", "smol-slm", "--config", "f.yaml"], "cannot be combined"),
        (["launch", "--config", "none.yaml"], "none.yaml: No such file"),
        (["launch", "--port", "many"], "'--port'"),
        (["launch", "--prot", "1"], "--prot"),
        (["lanch"], "lanch"),
        (["check", "a.yaml", "b.yaml"], "b.yaml"),
        (["chat", "--url", "http://127.0.0.1:9", "--preset", "smol-slm"], "--url"),
        (["chat", "--url", "localhost"], "--url"),
        (["chat", "--url", "ftp://localhost"], "--url"),
        (["chat", "--temperature", "-1"], "'--temperature'"),
        (["launch", "-p", "profile-demo", "--ready-file", "/no/such/folder/f"], "ready_file"),
    ],
)
def test_command_lines(capsys, arguments, message):
    assert message in refused(capsys, *arguments)
