"""Rules of the tree that no linter knows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.support.tree import PACKAGES, ROOT, files, project

MODULE_LINES = 400

# in pieces, so that this file does not name what it forbids
HOSTS = tuple(
    ".".join(parts)
    for parts in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("npmjs", "org"),
        ("debian", "org"),
        ("crates", "io"),
    )
)
HOME = re.compile(r"(?<![\w.~])/(?:home|Users|root)/\w")


def test_imports_run_one_way() -> None:
    command = Path(sys.executable).with_name("lint-imports")
    run = subprocess.run(
        [command, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "0 broken" in run.stdout


def test_no_file_names_a_registry_or_somebodys_home() -> None:
    found = []
    for name in files():
        data = (ROOT / name).read_bytes()
        if b"\0" in data:
            continue
        for number, line in enumerate(data.decode("utf-8").splitlines(), start=1):
            if HOME.search(line) or any(host in line for host in HOSTS):
                found.append(f"{name}:{number}: {line.strip()[:120]}")
    assert not found, "\n".join(found)


def test_modules_fit_in_a_head() -> None:
    long = {
        str(name): lines
        for name in files()
        if name.suffix in {".py", ".pyi", ".cpp", ".hpp", ".h"}
        and (lines := len((ROOT / name).read_bytes().splitlines())) >= MODULE_LINES
    }
    assert not long, f"modules of {MODULE_LINES} lines or more: {long}"


def test_the_tree_holds_exactly_these_packages() -> None:
    found = {name.parts[1] for name in files() if name.parts[0] == "packages"}
    assert found == set(PACKAGES)


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_has_its_papers(package: str) -> None:
    folder = ROOT / "packages" / package
    assert (folder / "README.md").read_text("utf-8").startswith(f"# {package}\n")
    changelog = (folder / "CHANGELOG.md").read_text("utf-8")
    assert changelog.startswith("# Changelog\n")
    assert re.search(r"^## \[?(Unreleased|\d+\.\d+)", changelog, re.MULTILINE)
    assert (folder / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    assert (folder / "src" / package / "py.typed").exists()
    assert any((folder / "tests").rglob("test_*.py")), "no test"


@pytest.mark.parametrize("package", PACKAGES)
def test_a_project_file_keeps_the_rules(package: str) -> None:
    table = project(package)["project"]
    assert table["name"] == package
    assert table["license"] == "Apache-2.0"
    assert table["requires-python"] == ">=3.11"
    assert table["dynamic"] == ["version"]

    extras = table.get("optional-dependencies", {}).values()
    for text in [*table["dependencies"], *(text for extra in extras for text in extra)]:
        requirement = Requirement(text)
        operators = {clause.operator for clause in requirement.specifier}
        if requirement.name in PACKAGES and requirement.name != package:
            assert operators == {">=", "<"}, f"{text}: in-repo dependencies are ranges"
        assert "==" not in operators, f"{text}: pins belong in constraints.txt"
