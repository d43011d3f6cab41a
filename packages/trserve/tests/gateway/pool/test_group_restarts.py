"""A local group's process that ends is started again, also after a start that failed."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from trserve.gateway.config.config import GroupSpec
from trserve.gateway.pool.local_groups import LocalGroup

READY = """
import pathlib, sys, time
new = pathlib.Path(sys.argv[1] + ".new")
new.write_text('{"url": "http://127.0.0.1:7"}')
new.rename(sys.argv[1])
"""
ENDS = READY + "time.sleep(0.1)"
STAYS = READY + "time.sleep(60)"
FAILS = "raise SystemExit(1)"
GARBAGE = ENDS.replace('"url"', "url")


class Scripted(LocalGroup):
    """Its process runs these programs, one after the other; None: there is no such file."""

    def __init__(self, programs: list[str | None], recovered_s: float) -> None:
        super().__init__(
            GroupSpec(name="pair", preset="none"),
            max_body=1,
            debug=False,
            json_logs=False,
            restart_s=(0.01, 0.04),
            recovered_s=recovered_s,
        )
        self.programs = programs
        self.ports: list[int] = []

    def _command(self, port: int, ready: Path) -> list[str]:
        program = self.programs[len(self.ports)]
        self.ports.append(port)
        if program is None:
            return [str(ready.parent / "nothing")]
        return [sys.executable, "-S", "-c", program, str(ready)]


async def restarted(group: Scripted) -> list[dict[str, Any]]:
    """The log's lines from its first start to its second one, after which it is stopped."""
    with capture_logs() as lines:
        await group._launch(port=0)
        group._watch = asyncio.create_task(group._keep_alive())
        try:
            async with asyncio.timeout(20):
                while [line["event"] for line in lines].count("group") < 2:
                    assert not group._watch.done()
                    await asyncio.sleep(0.005)
        finally:
            await group.stop()
    return [dict(line) for line in lines]


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("recovered_s", "pauses"),
    [(60.0, [0.01, 0.02, 0.04, 0.04]), (0.0, [0.01, 0.01, 0.01, 0.01])],
)
async def test_until_one_stays(recovered_s: float, pauses: list[float]) -> None:
    """At its old port; the pauses double, and begin anew once it has lived for long enough."""
    group = Scripted([ENDS, FAILS, None, GARBAGE, STAYS], recovered_s)
    lines = await restarted(group)
    assert group.ports == [0, 7, 7, 7, 7]
    assert [line["in_s"] for line in lines if "in_s" in line] == pauses
    failures = [line["why"] for line in lines if line["event"] == "group cannot be started"]
    assert len(failures) == 3
    assert "cannot be served" in failures[0]
    assert "No such file" in failures[1]
