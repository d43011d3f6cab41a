"""The Makefile says in one line what is missing, and needs nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.tree import ROOT

SHELL_TOOLS = ("sh", "cat", "mkdir", "grep", "env", "bash")


def make(
    folder: Path, *arguments: str, tools: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run make as a newcomer would, without what an outer make exports."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in {"MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "CXX", "VIRTUAL_ENV"}
    }
    if tools is not None:
        environment["PATH"] = str(tools)
    command = shutil.which("make")
    assert command
    return subprocess.run(
        [command, "--no-print-directory", "-C", str(folder), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_help_lists_the_targets() -> None:
    run = make(ROOT, "help")
    assert run.returncode == 0, run.stderr
    for target in ("serve", "test", "bench", "lint", "wheels", "clean"):
        assert f"make {target} " in run.stdout


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        ((), "benchmarks._suite"),
        (("B=overhead",), "benchmarks._suite overhead --full"),
        (("B=overhead", "ARGS=--smoke --model slm"), "… overhead --full -- --smoke --model slm"),
        (("FULL=1",), "benchmarks._suite --full"),
    ],
)
def test_bench_runs_all_at_smoke_size_or_what_is_asked_for(
    arguments: tuple[str, ...], command: str
) -> None:
    run = make(ROOT, "--dry-run", "bench", *arguments)
    assert run.returncode == 0, run.stderr
    last = " ".join(run.stdout.splitlines()[-1].split())
    assert last.endswith(f"-m {command.replace('…', 'benchmarks._suite')}")


@pytest.mark.parametrize(
    ("present", "line"),
    [
        ((), "missing: a C++ compiler"),
        (("c++",), "missing: cmake"),
        (("c++", "cmake"), "missing: Python 3.11 or newer"),
        (("c++", "cmake", "python3"), "missing: Python 3.11 or newer"),
    ],
)
def test_a_missing_tool_is_named(tmp_path: Path, present: tuple[str, ...], line: str) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in SHELL_TOOLS:
        where = shutil.which(name)
        assert where
        (tools / name).symlink_to(where)
    for name in present:  # programs that fail: as a compiler unused so far, as a Python too old
        (tools / name).write_text("#!/bin/sh\nexit 1\n")
        (tools / name).chmod(0o755)
    tree = tmp_path / "tree"
    tree.mkdir()
    shutil.copy(ROOT / "Makefile", tree)

    run = make(tree, "setup", tools=tools)

    assert run.returncode != 0
    assert run.stdout.splitlines() == [line]
    assert not (tree / ".venv").exists()
