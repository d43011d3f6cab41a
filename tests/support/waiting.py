"""Waiting for what other threads do."""

from __future__ import annotations

import threading
from collections.abc import Callable


def until(condition: Callable[[], bool]) -> None:
    """Block until another thread has made `condition` true; fails after a while."""
    pause = threading.Event()
    for _ in range(20_000):
        if condition():
            return
        pause.wait(0.001)
    raise AssertionError("never happened")
