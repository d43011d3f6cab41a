"""What `make wheels` builds: each wheel works alone in a clean environment."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import zipfile
from email.parser import HeaderParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from tests.packaging.test_makefile import make
from tests.support.tree import PACKAGES, ROOT

if TYPE_CHECKING:
    from email.message import Message

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

ROUTERS = {"bernoulli", "fixed", "me", "r_stitch"}
TRAINED_ROUTERS = {"r2r", "citer", "co_llm"}
"""Known without the extra `torch`, and loaded only with it."""

DATA = {
    "trrouters": {"training/prompts/train.txt", "training/prompts/held_out.txt"},
    "trserve": {
        "models/smollm2-slm8.IQ4_NL.gguf",
        *(
            f"routers/{name}/router.{kind}"
            for name in ("smol-r2r", "smol-citer", "smol-co-llm")
            for kind in ("json", "safetensors")
        ),
        *(
            f"playground/{file.name}"
            for file in (ROOT / "packages" / "trserve" / "src" / "trserve" / "playground").iterdir()
        ),
    },
}

PROBE = """
import importlib, json, sys
from importlib.metadata import entry_points, version
from importlib.resources import files

package = sys.argv[1]
module = importlib.import_module(package)
data = json.loads(sys.argv[2])
print(json.dumps({
    "file": module.__file__,
    "attribute": getattr(module, "__version__", None),
    "version": version(package),
    "typed": (files(package) / "py.typed").is_file(),
    "routers": [e.name for e in entry_points(group="trrouters.routers")],
    "missing": [name for name in data if not (files(package) / name).is_file()],
}))
"""

LOAD = "import sys, trrouters; [trrouters.router_class(name) for name in sys.argv[1:]]"


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}:\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def dist() -> Path:
    built = make(ROOT, "wheels")
    assert built.returncode == 0, built.stdout + built.stderr
    return ROOT / "dist"


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


def probe(programs: Path, package: str, cwd: Path) -> dict[str, Any]:
    data = json.dumps(sorted(DATA.get(package, ())))
    found = json.loads(run(programs / "python", "-I", "-c", PROBE, package, data, cwd=cwd))
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("package", PACKAGES)
def test_a_wheel_installs_alone_and_imports(dist: Path, package: str, tmp_path: Path) -> None:
    programs = install(dist, package, tmp_path / "env")
    facts = probe(programs, package, tmp_path)

    assert facts["file"].startswith(str(tmp_path)), "imported from the tree, not from the wheel"
    assert facts["typed"]
    assert facts["version"] == metadata(wheel(dist, package))["Version"]
    assert facts["attribute"] in {None, facts["version"]}
    assert SpecifierSet(">=0.1.0.dev0,<0.2").contains(facts["version"], prereleases=True)
    if "trrouters" in in_repo_needs(dist, package):
        assert set(facts["routers"]) >= ROUTERS | TRAINED_ROUTERS
        loaded = ROUTERS if package != "trserve" else ROUTERS | TRAINED_ROUTERS
        run(programs / "python", "-I", "-c", LOAD, *sorted(loaded), cwd=tmp_path)
    if package == "trrouters":
        assert "collect" in run(programs / "trrouters", "--help", cwd=tmp_path)
    assert not facts["missing"]
    if package == "trserve":
        assert facts["version"] in run(programs / "trserve", "--version", cwd=tmp_path)


@pytest.mark.parametrize("package", PACKAGES)
def test_the_sdist_builds_the_same_wheel(dist: Path, package: str, tmp_path: Path) -> None:
    (sdist,) = dist.glob(f"{package}-*.tar.gz")
    pip = (sys.executable, "-m", "pip", "-qq", "wheel", "--no-deps", "--no-build-isolation")
    run(*pip, "--wheel-dir", tmp_path, sdist)
    (again,) = tmp_path.glob("*.whl")

    first = wheel(dist, package)
    assert again.name == first.name
    with zipfile.ZipFile(first) as a, zipfile.ZipFile(again) as b:
        assert sorted(a.namelist()) == sorted(b.namelist())
    assert str(metadata(again)) == str(metadata(first))
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"PKG-INFO", "README.md", "CHANGELOG.md", "LICENSE", "pyproject.toml"} <= names
