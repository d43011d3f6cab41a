"""Back-pressure between the loops of a group: a full ring holds its sender up, for a while."""

from __future__ import annotations

from trcore import PeerRing

PATIENCE_S = 30.0


def push_patiently(ring: PeerRing, record: bytes) -> bool:
    """Add a record, waiting for room; False when nothing was taken from the ring for PATIENCE_S."""
    return ring.push(record) or ring.push_many([record], PATIENCE_S) == 1
