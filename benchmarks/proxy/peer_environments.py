"""Virtual environments of the peers, made when they are wanted and kept.

What is installed is pinned in peers.txt; a pin that changes makes the environment anew.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

from benchmarks.proxy.proxy_process import StartError

_FILE = Path(__file__).with_name("peers.txt")


def pins() -> dict[str, str]:
    """Each peer's requirement, by its name."""
    lines = [line.strip() for line in _FILE.read_text().splitlines()]
    wanted = [line for line in lines if line and not line.startswith("#")]
    return {line.partition("==")[0].partition("[")[0]: line for line in wanted}


def home() -> Path:
    """Where the environments are."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "token-routing" / "peers"


def installed(name: str, folder: Path | None = None) -> bool:
    """Whether there is an environment with what is pinned now."""
    stamp = (folder or home()) / name / "installed.txt"
    return stamp.exists() and stamp.read_text() == pins()[name]


def environment(name: str, folder: Path | None = None) -> Path:
    """The folder of the peer's commands; installs it first where it is not.

    Raises StartError if it cannot be installed.
    """
    at = (folder or home()) / name
    if not installed(name, folder):
        print(f"installing {pins()[name]} into a virtual environment", file=sys.stderr, flush=True)
        shutil.rmtree(at, ignore_errors=True)
        venv.create(at, with_pip=True, symlinks=True)
        command = [str(at / "bin" / "python"), "-m", "pip", "install", "--no-input"]
        command += ["--disable-pip-version-check", "--progress-bar", "off", pins()[name]]
        done = subprocess.run(command, stdout=sys.stderr, check=False)
        if done.returncode:
            raise StartError(f"pip install {pins()[name]} ended with {done.returncode}")
        (at / "installed.txt").write_text(pins()[name])
    return at / "bin"
