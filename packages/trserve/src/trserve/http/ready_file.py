"""The file by which scripts learn that the server is ready, and where."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from trsched.errors import ConfigError


class ReadyFile:
    """Absent until `write`, whole from then on."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def write(self, url: str) -> None:
        """Put `{"url": …, "pid": …}` there in one step."""
        if self._path is None:
            return
        descriptor, name = tempfile.mkstemp(dir=self._path.parent, prefix=self._path.name)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump({"url": url, "pid": os.getpid()}, file)
            file.write("\n")
        Path(name).replace(self._path)


@contextmanager
def ready_file(path: Path | None) -> Iterator[ReadyFile]:
    """Remove what an earlier server left, and what this one wrote once it stops.

    Raises ConfigError naming `server.ready_file` when the file could not be written.
    """
    if path is not None:
        _make_way(path)
    try:
        yield ReadyFile(path)
    finally:
        if path is not None:
            with suppress(OSError):
                path.unlink(missing_ok=True)


def _make_way(path: Path) -> None:
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise ConfigError("server.ready_file", f"cannot write into {path.parent}")
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise ConfigError("server.ready_file", f"{path}: {error.strerror}") from error
