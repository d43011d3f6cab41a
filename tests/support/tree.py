"""Where things are in the source tree, for the tests of this folder."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("trcore", "trrouters", "trsched", "rbalance", "trserve")


def project(package: str) -> dict[str, Any]:
    """A package's pyproject.toml."""
    return tomllib.loads((ROOT / "packages" / package / "pyproject.toml").read_text("utf-8"))


def files() -> list[Path]:
    """Every file of the tree that is committed or would be, relative to its root."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split("\0")
    return [Path(name) for name in listed if name and (ROOT / name).is_file()]
