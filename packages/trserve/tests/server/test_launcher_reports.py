"""What a group reports while it is served, at any time until it has drained."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from trserve.server import launcher


def test_a_stop_interrupts_loading_and_nothing_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """The group's own threads report, too; an exception would end the requests that drain."""
    reporters: list[Callable[[str], None]] = []

    def open_served_group(_: object, report: Callable[[str], None]) -> tuple[None, None]:
        report("loading")
        reporters.append(report)
        return None, None

    monkeypatch.setattr("trserve.server.open_served_group.open_served_group", open_served_group)
    monkeypatch.setattr(launcher, "log_deployment", lambda *_: None)
    deployment: Any = None

    async def load(*, stopped: bool) -> None:
        stops: Any = SimpleNamespace(first=asyncio.Event(), second=asyncio.Event())
        if stopped:
            stops.first.set()
        await launcher._load(deployment, "http://test", stops)
        stops.first.set()

    with capture_logs() as lines:
        asyncio.run(load(stopped=False))
        (report,) = reporters
        try:
            report("a model died")
        except KeyboardInterrupt:  # pytest would take it for the user's
            pytest.fail("a report interrupted a thread of the group")
    assert (lines[-1]["event"], lines[-1]["log_level"]) == ("a model died", "warning")
    reporters.clear()
    asyncio.run(load(stopped=True))
    assert not reporters, "loading went on"
