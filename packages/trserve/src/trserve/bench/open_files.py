"""Each request in flight is an open file; many systems allow a process 1024 at first."""

from __future__ import annotations

import contextlib
import resource


def allow_many_files() -> None:
    """As many as this user may have open."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):  # macOS names a limit that it doesn't grant
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
