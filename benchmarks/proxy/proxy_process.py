"""A server in a process of its own, until it answers, and until it is ended."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_STOP_S = 10.0


class StartError(Exception):
    """A server that did not start; says why."""


@dataclass(frozen=True, slots=True)
class Proxy:
    """What is measured. pid: of its first process; none for no proxy at all.

    model: what requests name. configuration: all that it was told.
    """

    name: str
    port: int
    pid: int | None
    model: str
    configuration: dict[str, Any]


def free_port() -> int:
    """One that was free just now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def running(
    command: Sequence[str],
    port: int,
    model: str,
    *,
    environment: Mapping[str, str] | None = None,
    within_s: float = 120.0,
) -> Iterator[int]:
    """Run `command` until the block ends; its process id, once a chat is answered on `port`.

    Raises StartError with the last of what it printed.
    """
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
        )
        try:
            _until_it_answers(process, port, model, log.fileno(), within_s)
            yield process.pid
        finally:
            process.terminate()
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _until_it_answers(
    process: subprocess.Popen[bytes], port: int, model: str, log: int, within_s: float
) -> None:
    until = time.monotonic() + within_s
    asked = {"model": model, "messages": [{"role": "user", "content": "hello"}], "max_tokens": 1}
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/chat/completions",
        json.dumps(asked).encode(),
        {"Content-Type": "application/json"},
    )
    while True:
        if process.poll() is not None:
            raise StartError(f"it ended with {process.returncode}: {_last_words(log)}")
        try:
            with urllib.request.urlopen(request, timeout=10):
                return
        except OSError as error:
            if time.monotonic() > until:
                raise StartError(f"no answer after {within_s:.0f} s: {error}") from None
            time.sleep(0.1)


def _last_words(log: int) -> str:
    text = Path(f"/proc/self/fd/{log}").read_text("utf-8", "replace")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][-300:] if lines else "without a word"
