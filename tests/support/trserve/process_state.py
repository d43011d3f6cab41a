"""State of the process that commands change or read, kept apart from other tests."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import structlog

from trserve.settings.server_settings import ALL_SETTINGS


def clear_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of our environment variables is set."""
    for setting in ALL_SETTINGS.values():
        monkeypatch.delenv(setting.variable, raising=False)


@contextmanager
def kept_logging() -> Iterator[None]:
    """Commands set up the process's logging; put back what was there."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    configuration = structlog.get_config()
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        structlog.configure(**configuration)
