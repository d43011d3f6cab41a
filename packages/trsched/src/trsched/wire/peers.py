"""A subserver's ways out: rings of its peers and of the group's client loop."""

from __future__ import annotations

from collections.abc import Sequence

from trcore import PeerRing
from trrouters import PeerReq
from trsched.errors import EngineError
from trsched.wire.codec import CodecError, encode_hand_off, encode_report
from trsched.wire.messages import Died, Report
from trsched.wire.patient_push import push_patiently, takes_nothing


class Peers:
    """Sends hand-offs and reports; knows which peers are dead.

    rings: inboxes by subserver index. A full ring holds the sender up (it never loses a record).
    """

    def __init__(self, index: int, rings: Sequence[PeerRing], group: PeerRing) -> None:
        self._index = index
        self._rings = rings
        self._group = group
        self._dead: set[int] = set()

    @property
    def inbox(self) -> PeerRing:
        """The subserver's own ring."""
        return self._rings[self._index]

    def subserver(self, peer: int) -> int:
        """Index of peer `peer` in the group."""
        return (self._index + peer) % len(self._rings)

    def peer(self, subserver: int) -> int:
        """Number of a subserver as a peer of this one."""
        return (subserver - self._index) % len(self._rings)

    def is_dead(self, subserver: int) -> bool:
        """Whether that subserver's death was announced."""
        return subserver in self._dead

    def mark_dead(self, subserver: int) -> None:
        """From now on nothing is sent there."""
        self._dead.add(subserver)

    def record(self, peer: int, req: PeerReq, decided_ns: int) -> bytes:
        """The hand-off of a request to a peer. Raises CodecError if no record or ring can hold it.

        decided_ns: monotonic clock at the routing decision.
        """
        record = encode_hand_off(req, self._index, decided_ns)
        most = self._rings[self.subserver(peer)].max_record_bytes
        if len(record) > most:
            raise CodecError(f"a hand-off of {len(record)} bytes: a ring holds at most {most}")
        return record

    def hand_off(self, peer: int, record: bytes) -> None:
        """Send a request to a peer. One that takes nothing is dead, and the group is told so."""
        subserver = self.subserver(peer)
        if not push_patiently(self._rings[subserver], record):
            self.mark_dead(subserver)
            error = f"model {self._index} could not hand over: {takes_nothing()}"
            self.report(Died(subserver, error))

    def report(self, report: Report) -> None:
        """Tell the group. Raises EngineError if it takes nothing."""
        if not push_patiently(self._group, encode_report(report)):
            raise EngineError(f"the group: {takes_nothing()}")
