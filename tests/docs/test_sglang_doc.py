"""docs/sglang.md: its configuration is right, and what it says `check` prints is what it prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from trsched.errors import ConfigError
from trsched.plan.check import check
from trserve.cli.main import main
from trserve.presets import preset_names
from trserve.server.deployment import load_deployment

PAGE = (Path(__file__).parents[2] / "docs/sglang.md").read_text("utf-8")


@pytest.fixture(autouse=True)
def bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TRSERVE_PORT", "0")


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    return found[1]


def test_the_configurations(tmp_path: Path) -> None:
    served, collected = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    path = tmp_path / "pair.yaml"
    path.write_text(served)
    assert main(["check", str(path)]) == 0
    path.write_text(collected)
    with pytest.raises(ConfigError, match=r"models\[0\]\.path: no such file"):
        check(load_deployment(config=path).group)


def test_what_check_prints(capsys: pytest.CaptureFixture[str]) -> None:
    command, _, *lines = block("text").splitlines()
    words = command.removeprefix("$ trserve ").split()
    assert words[0] == "check"
    assert main(words) == 0
    assert "\n".join(lines) in capsys.readouterr().out


def test_every_preset_is_there() -> None:
    named = set(re.findall(r"`(qwen3-[\w.-]+)`", PAGE))
    assert named == {name for name in preset_names() if name.startswith("qwen3-")}


def test_the_way_to_the_public_router_is_the_presets(capsys: pytest.CaptureFixture[str]) -> None:
    words = re.search(r"```sh\n(hf download.*?)```", PAGE, re.DOTALL)
    assert words is not None
    download, convert = words[1].replace("\\\n", "").strip().splitlines()
    assert main(["check", "-p", "qwen3-0.6b-32b-r2r"]) == 0
    said = capsys.readouterr().out
    assert download in said
    assert " ".join(convert.split()) in said
