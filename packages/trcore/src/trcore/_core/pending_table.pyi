"""Live requests by handle."""

from enum import IntEnum
from typing import final

import numpy as np
from numpy.typing import NDArray

class State(IntEnum):
    """What a slot of a PendingTable holds, and what a handle means."""

    FREE = 0
    RUNNING = 1
    PENDING = 2
    FINISHED = 3
    STALE = 4

@final
class PendingTable:
    """Live requests by handle; every change of state is one compare-and-swap.

    A handle (0 to 2**63 - 1) names one use of one slot. After ``release`` it is stale: every call
    with it changes nothing and says so. All methods may be called from any thread.
    """

    def __init__(self, slots: int, peers: int) -> None:
        """``slots`` 1 to 2**24, ``peers`` 1 to 2**10, else ValueError."""
    def allocate(self, state: State = State.RUNNING, deadline: float = ...) -> int:
        """Handle of a new request, -1 when no slot is free.

        ``state`` RUNNING or PENDING, else ValueError. ``deadline`` in seconds of the caller's
        clock, infinite by default.
        """
    def adopt(self, handle: int, state: State, deadline: float = ...) -> bool:
        """Take a handle that another table allocated into this one.

        False if its slot is in use here or outside the table, or if the handle is older than the
        slot's last use.
        """
    def state(self, handle: int) -> State:
        """RUNNING, PENDING or FINISHED; STALE if the handle is no longer (or was never) alive."""
    def transition(self, handle: int, old: State, new: State) -> bool:
        """True if this call made the change; of several at once exactly one does.

        ValueError unless RUNNING to PENDING or back, or either to FINISHED.
        """
    def set_anchor(self, handle: int, peer: int, loc: int) -> bool:
        """Note up to which location (tokens, below 2**32) ``peer`` knows the sequence.

        False for a stale handle. IndexError if there is no such peer.
        """
    def anchor(self, handle: int, peer: int) -> int:
        """The location noted, 0 if none was, -1 for a stale handle."""
    def expire(self, now: float, out: NDArray[np.int64]) -> int:
        """Write the handles of running and pending requests with deadline <= ``now`` to ``out``.

        As many as fit, in slot order; returns their number and changes nothing else. ValueError
        unless ``out`` is a writable, contiguous, one-dimensional int64 array.
        """
    def release(self, handle: int) -> bool:
        """Free the slot of a FINISHED request; False otherwise."""
    def counts(self) -> tuple[int, int, int, int]:
        """Slots that are (free, running, pending, finished)."""
    @staticmethod
    def slot(handle: int) -> int:
        """The slot a handle names, -1 for a negative handle."""
    @property
    def slots(self) -> int: ...
    @property
    def peers(self) -> int: ...
