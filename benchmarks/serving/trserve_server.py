"""`trserve launch` as a process of its own, and a streaming client as light as can be."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from benchmarks.serving.system import Outcome, WorkItem


class TrserveServer:
    """A group behind our server; implements `System`."""

    def __init__(self, name: str, port: int, group: dict[str, Any]) -> None:
        self.name = name
        self.port = port
        self._group = group

    @property
    def configuration(self) -> dict[str, Any]:
        """See `System`."""
        return {"server": "trserve launch", **self._group}

    async def serve(self, item: WorkItem) -> Outcome:
        """See `System`. A greedy completion, streamed, over a connection of its own."""
        body = json.dumps(
            {
                "model": self._group["name"],
                "prompt": item.prompt_ids,
                "max_tokens": item.max_tokens,
                "temperature": 0,
                "seed": item.seed,
                "stream": True,
                "tokenrouter": {"model_per_token": True},
            }
        ).encode()
        outcome = Outcome(time.perf_counter())
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(request_head("/v1/completions", len(body)) + body)
            status = await reader.readline()
            if b" 200 " not in status:
                reply = await reader.read(-1)
                raise RuntimeError(f"{self.name}: {status.decode().strip()}: {reply[-500:]!r}")
            async for line in reader:
                if line.startswith(b"data: {"):
                    _take(outcome, json.loads(line[6:]), time.perf_counter())
        finally:
            writer.close()
        return outcome

    async def metrics(self) -> str:
        """The server's metrics page."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        reply = await reader.read(-1)
        writer.close()
        return reply.partition(b"\r\n\r\n")[2].decode()


def request_head(path: str, length: int) -> bytes:
    """The head of an HTTP POST of JSON on a connection that is closed after it."""
    return (
        f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n"
        "Content-Type: application/json\r\nConnection: close\r\n\r\n"
    ).encode()


def _take(outcome: Outcome, chunk: dict[str, Any], now: float) -> None:
    if "error" in chunk:
        raise RuntimeError(f"the server ended a stream: {chunk['error']}")
    for choice in chunk["choices"]:
        extension = choice.get("tokenrouter") or {}
        tokens = extension.get("token_ids") or []
        outcome.tokens += tokens
        outcome.models += extension.get("models") or []
        outcome.times += [now] * len(tokens)


@contextmanager
def trserve_server(name: str, group: dict[str, Any]) -> Iterator[TrserveServer]:
    """Serve `group`, a configuration as in a YAML file, on a free port until the block ends."""
    with tempfile.TemporaryDirectory() as folder:
        file, ready = Path(folder, "config.yaml"), Path(folder, "ready")
        file.write_text(yaml.safe_dump(group))
        command = [str(Path(sys.executable).with_name("trserve")), "launch", "--config", str(file)]
        command += ["--port", "0", "--ready-file", str(ready), "--log-level", "warning"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            while not ready.exists():
                if process.poll() is not None:
                    raise SystemExit(f"trserve launch ended with {process.returncode}")
                time.sleep(0.05)
            url = json.loads(ready.read_text())["url"]
            yield TrserveServer(name, int(url.rsplit(":", 1)[1].rstrip("/")), group)
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)
