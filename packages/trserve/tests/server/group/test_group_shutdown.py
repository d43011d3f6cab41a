"""A group that is closed once and not waited for without limit."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from structlog.testing import capture_logs

from trserve.server.group.group_shutdown import GroupShutdown


class SlowGroup:
    """Its engines stop when `stop` is set."""

    def __init__(self) -> None:
        self.stop = threading.Event()
        self.closed = 0

    def close(self) -> None:
        self.closed += 1
        assert self.stop.wait(10)


def shutdown(group: Any, patience_s: float) -> GroupShutdown:
    return GroupShutdown(group, patience_s=patience_s)


def test_engines_that_do_not_stop_are_left_behind() -> None:
    group = SlowGroup()

    async def close_twice() -> list[bool]:
        end = shutdown(group, 0.01)
        return [await end.close(), await end.close()]

    with capture_logs() as lines:
        assert asyncio.run(close_twice()) == [False, False]
    group.stop.set()
    assert [line["event"] for line in lines] == ["the engines do not stop: leaving them"]
    assert group.closed == 1


def test_it_is_closed_once_whoever_asks() -> None:
    group = SlowGroup()
    group.stop.set()

    async def close_twice() -> list[bool]:
        end = shutdown(group, 10)
        return [await end.close(), await end.close()]

    assert asyncio.run(close_twice()) == [True, True]
    assert group.closed == 1


def test_what_fails_is_raised() -> None:
    class Failing:
        def close(self) -> None:
            raise RuntimeError("no such device")

    with pytest.raises(RuntimeError, match="no such device"):
        asyncio.run(shutdown(Failing(), 10).close())
