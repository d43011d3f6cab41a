"""A server in a process of its own, until it answers, and until it is ended."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO

_STOP_S = 10.0


class StartError(Exception):
    """A server that did not start; says why."""


@dataclass(frozen=True, slots=True)
class Proxy:
    """What is measured.

    pid: of its first process; none for no proxy at all.
    model: what requests name.
    configuration: all that it was told.
    predicts: it is ours, with a predictor.
    """

    name: str
    port: int
    pid: int | None
    model: str
    configuration: dict[str, Any]
    predicts: bool = False


def free_port() -> int:
    """One that was free just now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class ProxyProcess:
    """A command that runs; what it prints is kept."""

    def __init__(self, process: subprocess.Popen[bytes], log: BinaryIO) -> None:
        self._process = process
        self._log = log
        self.pid = process.pid

    def wait_until_it_answers(self, port: int, model: str, within_s: float = 90.0) -> None:
        """Ask it until a chat is answered. Raises StartError with the last of what it printed."""
        until = time.monotonic() + within_s
        asked = {"model": model, "max_tokens": 1, "messages": [{"role": "user", "content": "Hi."}]}
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/v1/chat/completions",
            json.dumps(asked).encode(),
            {"Content-Type": "application/json"},
        )
        while True:
            if self._process.poll() is not None:
                raise StartError(f"it ended with {self._process.returncode}: {self._last_words()}")
            try:
                with urllib.request.urlopen(request, timeout=10):
                    return
            except urllib.error.HTTPError as error:
                said = error.read().decode("utf-8", "replace")[:300]
                if error.code == 400 or time.monotonic() > until:
                    raise StartError(f"it answers with {error.code}: {said}") from None
            except OSError as error:
                if time.monotonic() > until:
                    raise StartError(f"no answer after {within_s:.0f} s: {error}") from None
            time.sleep(0.1)

    def _last_words(self) -> str:
        self._log.seek(0)
        lines = self._log.read().decode("utf-8", "replace").strip().splitlines()
        return lines[-1].strip()[-300:] if lines else "without a word"


@contextmanager
def started(
    command: Sequence[str], environment: Mapping[str, str] | None = None
) -> Iterator[ProxyProcess]:
    """Run `command` until the block ends."""
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
        )
        try:
            yield ProxyProcess(process, log)
        finally:
            process.terminate()
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextmanager
def running(
    command: Sequence[str], port: int, model: str, environment: Mapping[str, str] | None = None
) -> Iterator[int]:
    """Run `command` until the block ends; its process id, once a chat is answered on `port`.

    Raises StartError if it is not.
    """
    with started(command, environment) as server:
        server.wait_until_it_answers(port, model)
        yield server.pid
