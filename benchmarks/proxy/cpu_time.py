"""What processes cost: CPU seconds and memory of one and of all that it started, from /proc."""

from __future__ import annotations

import os
import time
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_LOOK_S = 0.2
_PAGE = os.sysconf("SC_PAGE_SIZE")


def cpu_seconds(pid: int) -> float:
    """User and system time so far, with descendants that live or were waited for."""
    return sum(sum(map(int, _stat(each)[11:15])) for each in family(pid)) / _TICKS


def resident_bytes(pid: int) -> int:
    """Memory of the process and its descendants; pages that they share count for each."""
    return sum(int(_stat(each)[21]) for each in family(pid)) * _PAGE


def wait_until_idle(pid: int, within_s: float = 20.0) -> None:
    """Until it has digested what was asked of it: less than a tenth of a core is used."""
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        before = cpu_seconds(pid)
        time.sleep(_LOOK_S)
        if cpu_seconds(pid) - before < 0.1 * _LOOK_S:
            return


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
