"""A command that needs more than a plain `pip install trserve` brings says what to install."""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from trserve.cli.main import main

pytest.importorskip("llama_cpp", reason="trserve[llamacpp] is not installed")
pytest.importorskip("torch", reason="trserve[routers] is not installed")

Capture = pytest.CaptureFixture[str]


def hide(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """As if these were not installed."""
    for name in list(sys.modules):
        if name.partition(".")[0] in names or name.startswith("trrouters.algorithms."):
            monkeypatch.delitem(sys.modules, name)
    for name in names:
        monkeypatch.setitem(sys.modules, name, None)

    def found(name: str) -> object:
        return None if name in names else find_spec(name)

    monkeypatch.setattr("trsched.plan.require.find_spec", found)


def failure(capsys: Capture, *words: str) -> str:
    """The one line on standard error of a command that ends with status 2."""
    assert main(list(words)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    return err


@pytest.mark.parametrize("command", ["check", "launch", "profile", "chat"])
def test_llama_cpp(capsys: Capture, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    hide(monkeypatch, "llama_cpp")
    more = ("--prompt", "Hi") if command == "chat" else ()
    assert failure(capsys, command, "--preset", "smol-slm", *more) == (
        "trserve: models[0].engine: llama.cpp is not installed: pip install 'trserve[llamacpp]'\n"
    )


@pytest.mark.models
@pytest.mark.parametrize(
    ("preset", "router"),
    [
        ("smol-rstitch", "r_stitch"),
        ("smol-r2r", "r2r"),
        ("smol-citer", "citer"),
        ("smol-co-llm", "co_llm"),
    ],
)
def test_torch(capsys: Capture, monkeypatch: pytest.MonkeyPatch, preset: str, router: str) -> None:
    hide(monkeypatch, "torch")
    assert failure(capsys, "check", "--preset", preset) == (
        f"trserve: router.name: torch, for {router!r}, is not installed: "
        "pip install 'trserve[routers]'\n"
    )


@pytest.mark.models
@pytest.mark.parametrize("preset", ["smol-slm", "smol-me"])
def test_a_router_that_reads_no_tensors_needs_no_torch(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, preset: str
) -> None:
    hide(monkeypatch, "torch")
    assert main(["check", "--preset", preset]) == 0
    assert "all right" in capsys.readouterr().out


def test_the_list_of_presets_says_it_too(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    hide(monkeypatch, "llama_cpp", "torch")
    assert main(["models", "--json"]) == 0
    presets = {preset["name"]: preset for preset in json.loads(capsys.readouterr().out)["presets"]}
    assert presets["profile-demo"]["available"]
    for name, router in (("smol-rstitch", "r_stitch"), ("smol-r2r", "r2r")):
        assert not presets[name]["available"]
        assert presets[name]["router_missing"] == (
            f"torch, for {router!r}, is not installed: pip install 'trserve[routers]'"
        )
        assert presets[name]["models"][0]["missing"] == (
            "llama.cpp is not installed: pip install 'trserve[llamacpp]'"
        )
    assert presets["smol-me"]["router_missing"] is None


def test_a_gateway_with_boosted_trees(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "xgboost", None)
    pool = tmp_path / "pool.yaml"
    pool.write_text(
        "models:\n"
        "  - {name: m, quality: 0.5, length: 64, price_in: 1, price_out: 1, tpot_s: 0.01}\n"
        "instances:\n"
        "  - {name: i, model: m, url: 'http://127.0.0.1:1'}\n"
        f"tpot: {tmp_path}\n"
    )
    assert main(["gateway", "--config", str(pool), "--check"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.endswith("tpot: xgboost-cpu is not installed: pip install 'trserve[predict]'\n")
