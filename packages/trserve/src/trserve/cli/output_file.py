"""Files that commands write: refused early if they can't be, never there by halves."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from trsched.errors import ConfigError


def check_writable(path: Path, field: str) -> None:
    """Before the work starts. Raises ConfigError naming `field`."""
    if path.is_dir():
        raise ConfigError(field, f"{path} is a folder")
    if path.exists() and not path.is_file():  # /dev/null, say: it would be replaced by a file
        raise ConfigError(field, f"{path} is no ordinary file")
    if not path.parent.is_dir():
        raise ConfigError(field, f"there is no folder {path.parent}")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise ConfigError(field, f"cannot write into {path.parent}")


def write_whole(path: Path, field: str, data: bytes) -> None:
    """In one step, in place of what was there. Raises ConfigError naming `field`."""
    try:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            Path(name).chmod(0o666 & ~_umask())
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise ConfigError(field, f"{path}: {error.strerror}") from error


def _umask() -> int:
    current = os.umask(0o077)
    os.umask(current)
    return current
