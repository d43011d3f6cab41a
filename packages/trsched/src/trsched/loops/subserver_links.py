"""The client loop's ways out: the inboxes of the group's subservers, and who of them lives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from trcore import PeerRing
from trsched.wire.codec import encode_command
from trsched.wire.messages import Command, Stop
from trsched.wire.patient_push import push_patiently, takes_nothing


class SubserverLinks:
    """Sends to the subservers that live; used by the client loop's thread.

    rings: inboxes by subserver index. A full one holds the sender up.
    patience_s: one that takes nothing for so long is dead.
    lost: told its index and what is wrong; it is to mark it dead.
    alive: by subserver index; others may look at it.
    """

    def __init__(
        self, rings: Sequence[PeerRing], patience_s: float, lost: Callable[[int, str], None]
    ) -> None:
        self._rings = rings
        self._patience_s = patience_s
        self._lost = lost
        self.max_record_bytes = min(ring.max_record_bytes for ring in rings)
        self.alive = [True] * len(rings)

    def __len__(self) -> int:
        return len(self._rings)

    def mark_dead(self, index: int) -> None:
        """From now on nothing is sent there."""
        self.alive[index] = False

    def push(self, index: int, record: bytes) -> None:
        """Send a record to a subserver that lives."""
        if not push_patiently(self._rings[index], record, self._patience_s):
            self._lost(index, takes_nothing(self._patience_s))

    def tell_all(self, command: Command) -> None:
        """Send a command to all that live."""
        record = encode_command(command)
        for index in range(len(self._rings)):
            if self.alive[index]:
                self.push(index, record)

    def stop_all(self) -> None:
        """End them all; nothing can be sent any more."""
        stop = encode_command(Stop())
        for index, ring in enumerate(self._rings):
            if self.alive[index]:
                self.push(index, stop)
            else:  # it may live yet, if it is thought dead because its ring was full
                with suppress(BrokenPipeError):
                    ring.push(stop)
        self.alive = [False] * len(self._rings)
