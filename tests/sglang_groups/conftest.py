from __future__ import annotations

import importlib.util
import os
import warnings
from pathlib import Path

import pytest

HERE = Path(__file__).parent
BEFORE = frozenset(os.environ)
"""Before anything here has imported SGLang, which sets variables that other processes inherit."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """SGLang pins versions of its own: these tests run in an environment of their own."""
    if importlib.util.find_spec("sglang") is None:
        mark = pytest.mark.skip(reason="SGLang isn't installed here: it is in .venv-sglang")
    else:
        mark = pytest.mark.timeout(600)  # each process of a group imports it: ten CPU-seconds
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(mark)


@pytest.fixture(scope="module", autouse=True)
def _environment() -> None:
    """Groups and servers start in an environment as users have it."""
    for name in os.environ.keys() - BEFORE:
        if name.startswith("SGLANG_"):
            del os.environ[name]


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A small and a larger checkpoint of one tokenizer."""
    with warnings.catch_warnings(action="ignore"):  # of what transformers imports
        from tests.support.sglang.tiny_models import make_pair

    return make_pair(tmp_path_factory.mktemp("tiny"))
