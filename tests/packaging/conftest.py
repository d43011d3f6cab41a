"""What the tests of this folder share: the wheels, and an environment with `trserve` alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.packaging.test_makefile import make
from tests.support.built_wheels import install
from tests.support.tree import ROOT


@pytest.fixture(scope="session")
def dist() -> Path:
    built = make(ROOT, "wheels")
    assert built.returncode == 0, built.stdout + built.stderr
    return ROOT / "dist"


@pytest.fixture(scope="session")
def light(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of a new environment after `pip install trserve`."""
    return install(dist, "trserve", tmp_path_factory.mktemp("light") / "env")
