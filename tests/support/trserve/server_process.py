"""A `trserve launch` of one's own, in its own process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from trserve.settings.server_settings import ALL_SETTINGS

TIMEOUT = 120.0


class ServerProcess:
    """`arguments` follow `python -W error`. Its stderr is read as it comes."""

    def __init__(self, arguments: list[str], python: Path = Path(sys.executable)) -> None:
        variables = {setting.variable for setting in ALL_SETTINGS.values()}
        environment = {name: value for name, value in os.environ.items() if name not in variables}
        self.process = subprocess.Popen(
            [python, "-W", "error", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self.lines: list[str] = []
        self._queue: SimpleQueue[str | None] = SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_for(self, text: str) -> str:
        """The next line of stderr with `text` in it; fails when the process ends without."""
        while (line := self._queue.get(timeout=TIMEOUT)) is not None:
            if text in line:
                return line
        raise AssertionError(f"ended without {text!r}:\n" + "".join(self.lines))

    def signal(self, number: int = signal.SIGINT) -> None:
        """Send a signal."""
        self.process.send_signal(number)

    def finish(self) -> tuple[int, str, list[str]]:
        """Exit status, stdout and the lines of stderr."""
        status = self.process.wait(TIMEOUT)
        self._reader.join(TIMEOUT)
        assert self.process.stdout is not None
        return status, self.process.stdout.read(), self.lines

    def close(self) -> None:
        """Leave nothing behind."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(TIMEOUT)
        self._reader.join(TIMEOUT)
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            self._queue.put(line)
        self._queue.put(None)


@contextmanager
def server_process(
    arguments: list[str], python: Path = Path(sys.executable)
) -> Iterator[ServerProcess]:
    """The process, killed at the end if it still runs."""
    server = ServerProcess(arguments, python)
    try:
        yield server
    finally:
        server.close()


@contextmanager
def running_server(
    folder: Path,
    *arguments: str,
    source: Sequence[str] = ("--preset", "profile-demo"),
    server: str = "launch",
    python: Path = Path(sys.executable),
) -> Iterator[tuple[ServerProcess, str]]:
    """A ready server with that preset or configuration on a free port, and its URL.

    server: the command that starts it. python: another environment's, which sees nothing of this
    one's.
    """
    ready = folder / "ready.json"
    command = ["-m", "trserve", server, *source, "--port", "0", "--ready-file", str(ready)]
    isolated = [] if python == Path(sys.executable) else ["-I"]
    with server_process([*isolated, *command, *arguments], python) as process:
        process.wait_for("ready")
        facts: dict[str, Any] = json.loads(ready.read_text())
        assert facts["pid"] == process.process.pid
        yield process, facts["url"]
