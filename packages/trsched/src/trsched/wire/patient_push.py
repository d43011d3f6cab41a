"""Back-pressure between the loops of a group: a full ring holds its sender up, for a while."""

from __future__ import annotations

from trcore import PeerRing

PATIENCE_S = 30.0
TAKES_NOTHING = f"its ring is full, and it has died or takes nothing for {PATIENCE_S:.0f} s"


def push_patiently(ring: PeerRing, record: bytes) -> bool:
    """Add a record, waiting for room; False when nothing was taken from the ring for PATIENCE_S.

    False at once if there is no room and the reader's process has died. A ring that its reader has
    closed swallows everything: that the reader has ended is told in another way.
    """
    try:
        return ring.push(record) or ring.push_many([record], PATIENCE_S) == 1
    except BrokenPipeError:
        return True
