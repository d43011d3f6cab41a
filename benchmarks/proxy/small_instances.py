"""Small real servers, `trserve launch` on the profile engine, each a process of its own."""

from __future__ import annotations

import asyncio
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from benchmarks.load.keep_alive import KeepAlive
from benchmarks.proxy.proxy_process import free_port, started
from trserve.gateway.pool.telemetry_text import read_metrics

MODEL = "small"
_FINISHED = re.compile(r"^trserve_choices_finished_total\{[^}]*\} (\S+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ServerLoad:
    """What a server says of itself: requests that run or wait, and all that it has finished."""

    in_flight: int
    finished: int


class SmallInstances:
    """Servers of one model by their ports."""

    def __init__(self, ports: Sequence[int]) -> None:
        self.ports = ports
        self.urls = [f"http://127.0.0.1:{port}" for port in ports]

    async def loads(self) -> list[ServerLoad]:
        """Of every server, asked at the same time."""
        return await asyncio.gather(*map(_load, self.ports))


def group(step_ms: float, at_once: int) -> dict[str, Any]:
    """A server's file: a step of step_ms however many run, `at_once` at most."""
    return {
        "name": MODEL,
        "models": [{"engine": "profile", "name": MODEL, "step_ms": [step_ms], "eos_rate": 0.0}],
        "router": {"name": "fixed"},
        "context": 1024,
        "kv_memory": at_once * 1024 * 1024,
        "max_active": at_once,
        "max_queue": 4096,
    }


@contextmanager
def small_instances(steps_ms: Sequence[float], at_once: int) -> Iterator[SmallInstances]:
    """A server for each of steps_ms, until the block ends. Raises StartError."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        servers = []
        for at, step_ms in enumerate(steps_ms):
            file, port = Path(folder, f"{at}.yaml"), free_port()
            file.write_text(yaml.safe_dump(group(step_ms, at_once)))
            command = [sys.executable, "-m", "trserve", "launch", "--config", str(file)]
            command += ["--port", str(port), "--log-level", "warning"]
            servers.append((stack.enter_context(started(command)), port))
        for server, port in servers:
            server.wait_until_it_answers(port, MODEL)
        yield SmallInstances([port for _, port in servers])


async def _load(port: int) -> ServerLoad:
    connection = KeepAlive(port)
    page = await connection.get("/metrics")
    connection.close()
    reading = read_metrics(page)
    assert reading is not None
    finished = sum(float(value) for value in _FINISHED.findall(page.decode()))
    return ServerLoad(reading.telemetry.running + reading.telemetry.waiting, int(finished))
