"""What the figures of a report were measured on."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

LIBRARIES = ("numpy", "torch", "llama-cpp-python", "trcore", "trsched", "trserve")


def machine() -> dict[str, str]:
    """Facts with their names; what can't be found out is left out."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    facts = {
        "CPU": _field(Path("/proc/cpuinfo"), "model name") or platform.processor(),
        "cores": f"{os.cpu_count()}, of which this process may use {usable}",
        "memory": _gibibytes(_field(Path("/proc/meminfo"), "MemTotal")),
        "system": f"{platform.system()} {platform.release()}, {platform.machine()}",
        "Python": platform.python_version(),
    }
    for library in LIBRARIES:
        try:
            facts[library] = version(library)
        except PackageNotFoundError:
            continue
    return {name: fact for name, fact in facts.items() if fact}


def _field(path: Path, name: str) -> str:
    try:
        lines = path.read_text("utf-8").splitlines()
    except OSError:
        return ""
    found = (line.partition(":") for line in lines)
    return next((value.strip() for key, _, value in found if key.strip() == name), "")


def _gibibytes(text: str) -> str:
    number = text.removesuffix(" kB")
    return f"{int(number) / 2**20:.1f} GiB" if number.isdecimal() else text
