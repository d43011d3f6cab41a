"""How old a reading may be follows how often it is asked for (`checks.telemetry_s`)."""

from __future__ import annotations

import pytest

from rbalance import Telemetry
from tests.support.gateway.gateway_parts import instance, opened, small_config


@pytest.mark.parametrize(
    ("every_s", "stale_s", "forgotten_s"),
    [(0.01, 1, 10), (0.2, 1, 10), (1, 5, 50), (30, 150, 1500)],
)
def test_five_missed_readings_are_stale_and_fifty_forgotten(
    every_s: float, stale_s: float, forgotten_s: float
) -> None:
    """Not before one second and ten: an instance may be slow to answer once."""
    config = small_config(instances=[instance("a")], checks={"telemetry_s": every_s})
    state = opened(config)[0].state
    state.report(0, Telemetry(7, 2), 100.0)

    def seen(after_s: float) -> tuple[int, int]:
        state.refresh(100.0 + after_s)
        return state.stale(100.0 + after_s), int(state.view.running[0])

    assert seen(0.99 * stale_s) == (0, 7)
    assert seen(1.01 * stale_s) == (1, 7)
    assert seen(0.99 * forgotten_s) == (1, 7)
    assert seen(1.01 * forgotten_s) == (1, 0)
