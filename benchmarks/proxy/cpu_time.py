"""What processes cost: CPU seconds and memory of one and of all that it started, from /proc."""

from __future__ import annotations

import os
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def cpu_seconds(pid: int) -> float:
    """User and system time so far of the process and its living descendants, and of dead ones that
    were waited for."""
    return sum(sum(map(int, _stat(each)[11:15])) for each in family(pid)) / _TICKS


def resident_bytes(pid: int) -> int:
    """Memory of the process and its descendants; pages that they share count for each."""
    return sum(int(_stat(each)[21]) for each in family(pid)) * _PAGE


def family(pid: int) -> list[int]:
    """The process and its living descendants."""
    found = [pid]
    for each in found:
        for task in Path(f"/proc/{each}/task").glob("*/children"):
            found += map(int, task.read_text().split())
    return found


def _stat(pid: int) -> list[str]:
    """Fields of /proc/PID/stat from the third on: after the name, which may hold anything."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
