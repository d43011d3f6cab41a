"""Back-pressure between the loops of a group: a full ring holds its sender up, for a while."""

from __future__ import annotations

from trcore import PeerRing

PATIENCE_S = 30.0


def push_patiently(ring: PeerRing, record: bytes, patience_s: float = PATIENCE_S) -> bool:
    """Add a record, waiting for room; False when nothing was taken from the ring for so long.

    False at once if there is no room and the reader's process has died. A ring that its reader has
    closed swallows everything: that the reader has ended is told in another way.
    """
    try:
        return ring.push(record) or ring.push_many([record], patience_s) == 1
    except BrokenPipeError:
        return True


def takes_nothing(patience_s: float = PATIENCE_S) -> str:
    """What to say of a reader for whom `push_patiently` was False."""
    return f"its ring is full, and it has died or takes nothing for {patience_s:.0f} s"
