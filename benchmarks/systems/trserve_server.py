"""`trserve launch` as a process of its own, and a streaming client as light as can be."""

from __future__ import annotations

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

from benchmarks.load.event_stream import post_stream
from benchmarks.load.keep_alive import KeepAlive
from benchmarks.load.system import TimedResponse, WorkItem


class TrserveServer:
    """A group behind our server; implements `System`."""

    def __init__(self, name: str, port: int, group: dict[str, Any]) -> None:
        self.name = name
        self.port = port
        self._group = group

    @property
    def configuration(self) -> dict[str, Any]:
        """Everything that decides how fast it is, printed with the result."""
        return {"server": "trserve launch", **self._group}

    async def serve(self, item: WorkItem) -> TimedResponse:
        """One request: a greedy completion, streamed, over a connection of its own."""
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
        outcome = TimedResponse(time.perf_counter())
        await post_stream(
            self.name, self.port, "/v1/completions", body, lambda chunk: _take(outcome, chunk)
        )
        return outcome

    async def metrics(self) -> str:
        """The server's metrics page."""
        connection = KeepAlive(self.port)
        page = await connection.get("/metrics")
        connection.close()
        return page.decode()


def _take(outcome: TimedResponse, chunk: dict[str, Any]) -> None:
    now = time.perf_counter()
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
