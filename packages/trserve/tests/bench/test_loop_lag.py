"""A loop that is held up is seen to be late."""

from __future__ import annotations

import asyncio
import time

from trserve.bench.loop_lag import LoopLag


def test_a_held_up_loop() -> None:
    lag = LoopLag()

    async def hold_up() -> None:
        watching = asyncio.ensure_future(lag.watch())
        await asyncio.sleep(0)
        until = time.perf_counter() + 0.06
        while time.perf_counter() < until:
            pass
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)

    asyncio.run(hold_up())
    assert max(lag.late) >= 0.04


def test_a_short_load_has_a_tick() -> None:
    lag = LoopLag()

    async def short() -> None:
        watching = asyncio.ensure_future(lag.watch())
        await asyncio.sleep(0)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)

    asyncio.run(short())
    assert len(lag.late) == 1
