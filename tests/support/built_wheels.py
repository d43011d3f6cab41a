"""The wheels that `make wheels` built, and new environments with them."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from email.parser import HeaderParser
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.requirements import Requirement

from tests.support.tree import PACKAGES, ROOT

if TYPE_CHECKING:
    from email.message import Message


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}:\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


def wheel(dist: Path, package: str) -> Path:
    (found,) = dist.glob(f"{package}-*.whl")
    return found


def metadata(path: Path) -> Message:
    with zipfile.ZipFile(path) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        return HeaderParser().parsestr(archive.read(name).decode("utf-8"))


def in_repo_needs(dist: Path, package: str) -> set[str]:
    """The packages of this tree that a wheel needs, itself among them, as its metadata says."""
    needs = {package}
    for text in metadata(wheel(dist, package)).get_all("Requires-Dist", []):
        requirement = Requirement(text)
        if requirement.name in PACKAGES and requirement.marker is None:
            needs |= in_repo_needs(dist, requirement.name)
    return needs


def install(dist: Path, package: str, folder: Path) -> Path:
    """A new environment with the package's wheel and all that it requires; its bin folder."""
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    python = folder / "bin" / "python"
    wheels = [wheel(dist, name) for name in sorted(in_repo_needs(dist, package))]
    pip = (sys.executable, "-m", "pip", "--python", str(python), "-qq", "install", "--no-compile")
    kept = Path(sys.prefix, ".stamps", "llama")  # where make keeps the llama-cpp-python it built
    links = ("--find-links", kept.read_text().strip()) if kept.exists() else ()
    run(*pip, *links, "--constraint", ROOT / "constraints.txt", *wheels)
    return python.parent
