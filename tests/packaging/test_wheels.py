"""What `make wheels` builds: each wheel works alone in a clean environment."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
from packaging.specifiers import SpecifierSet

from tests.support.built_wheels import in_repo_needs, install, metadata, run, wheel
from tests.support.tree import PACKAGES, ROOT

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


def probe(programs: Path, package: str, cwd: Path) -> dict[str, Any]:
    data = json.dumps(sorted(DATA.get(package, ())))
    found = json.loads(run(programs / "python", "-I", "-c", PROBE, package, data, cwd=cwd))
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("package", PACKAGES)
def test_a_wheel_installs_alone_and_imports(
    dist: Path, package: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if package == "trserve":
        programs: Path = request.getfixturevalue("light")
    else:
        programs = install(dist, package, tmp_path / "env")
    facts = probe(programs, package, tmp_path)

    assert facts["file"].startswith(str(programs.parent)), "imported from the tree, not the wheel"
    assert facts["typed"]
    assert facts["version"] == metadata(wheel(dist, package))["Version"]
    assert facts["attribute"] in {None, facts["version"]}
    assert SpecifierSet(">=0.1.0.dev0,<0.2").contains(facts["version"], prereleases=True)
    if "trrouters" in in_repo_needs(dist, package):
        assert set(facts["routers"]) >= ROUTERS | TRAINED_ROUTERS
        run(programs / "python", "-I", "-c", LOAD, *sorted(ROUTERS), cwd=tmp_path)
    if package == "trrouters":
        alone = subprocess.run(
            [programs / "trrouters", "--help"], capture_output=True, text=True, check=False
        )
        assert (alone.returncode, alone.stdout) == (2, "")
        assert alone.stderr == (
            "trrouters: trrouters.training needs 'typer', which is not installed: "
            "pip install 'trrouters[training]'\n"
        )
    assert not facts["missing"]
    if package == "trserve":
        assert facts["version"] in run(programs / "trserve", "--version", cwd=tmp_path)


WORKSHOPS = {
    file.name
    for folder in ("trrouters/workshop", "trsched/sglang_cpu")
    for file in (ROOT / "packages" / folder).rglob("*.py")
    if file.name not in {"__init__.py", "__main__.py", "app.py"}
}
"""Modules for developers: in the tree, and in nothing that is packed."""


@pytest.mark.parametrize("package", PACKAGES)
def test_only_the_package_is_packed(dist: Path, package: str) -> None:
    assert {"rebuild.py", "install_shims.py"} <= WORKSHOPS
    with zipfile.ZipFile(wheel(dist, package)) as archive:
        names = [Path(name) for name in archive.namelist()]
    top = {name.parts[0] for name in names if not name.parts[0].endswith(".dist-info")}
    assert top == {package}
    (sdist,) = dist.glob(f"{package}-*.tar.gz")
    with tarfile.open(sdist) as archive:
        names += [Path(*Path(name).parts[1:]) for name in archive.getnames()]
    assert not [name for name in names if name.name in WORKSHOPS]
    assert not [name for name in names if name.parts[:1] == ("tests",)], "they need the tree's"


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
