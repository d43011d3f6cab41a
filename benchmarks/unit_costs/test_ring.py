"""A record through a ring on the heap, alone and among 64."""

from __future__ import annotations

import pytest

from benchmarks.unit_costs.conftest import Cost
from trcore import PeerRing

RECORD = bytes(64)


@pytest.mark.parametrize("count", [1, 64])
def test_push_and_drain(cost: Cost, count: int) -> None:
    records = [RECORD] * count
    with PeerRing.heap(1 << 16) as ring:

        def through() -> list[bytes]:
            ring.push_many(records)
            return ring.drain()

        assert cost(f"ring_push_drain_us_{count}", through, count) == records
