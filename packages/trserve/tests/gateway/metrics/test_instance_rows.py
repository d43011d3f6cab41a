"""What several entries of one server have to do is shown once (gauges by instance)."""

from __future__ import annotations

import asyncio

import pytest

from rbalance import BalancerStats, Telemetry
from tests.support.gateway.gateway_parts import instance, opened, small_config
from trserve.gateway.metrics.gateway_metrics import GatewayMetrics
from trserve.gateway.metrics.instance_rows import instance_rows
from trserve.gateway.pool.telemetry_text import TelemetryReading, read_metrics

SHARED = "http://127.0.0.1:9/shared"


@pytest.mark.asyncio
async def test_others_requests_are_counted_once_and_own_ones_where_they_are() -> None:
    """Of the seven that run at the server two are this gateway's, one by each of its entries."""
    entries = [instance("a", url=SHARED), instance("b", url=f"{SHARED}/"), instance("c")]
    balancing, pool = opened(small_config(instances=entries))
    state = balancing.state
    now = asyncio.get_running_loop().time()
    for key, at in (("one", 0), ("two", 1), ("three", 2), ("four", 1)):
        state.dispatch(key, at, 10, 100, now)
    for key in ("one", "two"):  # these write, the others wait
        state.progress(key, 1, now)
    for at in (0, 1):
        state.report(at, Telemetry(7, 3), now)
    state.refresh(now)

    rows = {each.instance: each for each in instance_rows(pool)}
    loads = {name: (row.running, row.waiting) for name, row in rows.items()}
    assert loads == {"a": (6, 2), "b": (1, 1), "c": (0, 1)}
    assert rows["b"].pending_tokens == 99 + 100
    assert rows["c"].pending_tokens == 100
    whole = rows["a"].pending_tokens + rows["b"].pending_tokens
    assert whole == float(state.view.pending_decode[0])
    page = GatewayMetrics(lambda: instance_rows(pool), BalancerStats()).page()
    assert read_metrics(page) == TelemetryReading(
        Telemetry(7, 4), "trgateway"
    )  # for a gateway above

    for key in ("one", "two", "three", "four"):
        state.release(key, now)
    pool.remove(pool.instances[0])  # the first of them that is left has what others send
    state.report(1, Telemetry(7, 3), now)
    left = {each.instance: (each.running, each.waiting) for each in instance_rows(pool)}
    assert left == {"b": (7, 3), "c": (0, 0)}
