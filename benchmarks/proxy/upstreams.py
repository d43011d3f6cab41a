"""The mock upstreams as a process, and their pace from here."""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from benchmarks.proxy.mock_upstream import Pace


class Upstreams:
    """ports: one of each server."""

    def __init__(self, ports: list[int], pid: int) -> None:
        self.ports = ports
        self.pid = pid

    @property
    def urls(self) -> list[str]:
        return [f"http://127.0.0.1:{port}" for port in self.ports]

    def pace(self, first_s: float, step_s: float) -> None:
        """Of all responses from now on."""
        body = msgspec.json.encode(Pace(first_s, step_s))
        request = urllib.request.Request(f"{self.urls[0]}/pace", body)
        with urllib.request.urlopen(request, timeout=10):
            pass


@contextmanager
def mock_upstreams(count: int) -> Iterator[Upstreams]:
    """So many servers, in one process, until the block ends."""
    command = [sys.executable, "-m", "benchmarks.proxy.mock_upstream", str(count)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield Upstreams([int(port) for port in process.stdout.readline().split()], process.pid)
        finally:
            process.terminate()
