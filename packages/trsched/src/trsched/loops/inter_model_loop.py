"""The inter-model loop: what arrives from peers and from the group becomes state of requests."""

from __future__ import annotations

import time

from msgspec.structs import replace

from trsched.errors import RouterFailedError
from trsched.loops.request_table import RequestTable
from trsched.loops.router_guard import RouterGuard
from trsched.shared.counters import SubserverStats
from trsched.wire.codec import GROUP, HandOff
from trsched.wire.messages import Admit, Command, PeerDown, Release, RequestFailed
from trsched.wire.peers import Peers


class InterModelLoop:
    """Takes records from the subserver's ring between two steps of its decode loop."""

    def __init__(
        self,
        index: int,
        guard: RouterGuard,
        table: RequestTable,
        peers: Peers,
        stats: SubserverStats,
    ) -> None:
        self._index = index
        self._guard = guard
        self._table = table
        self._peers = peers
        self._stats = stats

    def handle(self, message: HandOff | Command) -> None:
        """Apply one message. A message for a request that has ended is counted and ignored."""
        match message:
            case HandOff():
                self._receive(message)
            case Admit():
                if not self._table.admit(message, ready=message.entry == self._index):
                    self._stats.stale_messages += 1
            case Release(handle):
                self._table.end(handle)
            case PeerDown(index):
                self._peers.mark_dead(index)

    def _receive(self, message: HandOff) -> None:
        peer_req = message.peer_req
        req = self._table.get(peer_req.rid)
        if req is None or not self._table.is_pending(req):
            self._stats.stale_messages += 1
            return
        if peer_req.finished:
            self._table.end(req.rid)
            return
        missing = peer_req.loc - req.loc
        if (
            message.sender == GROUP
        ):  # which may not have heard yet of what was handed over from here
            missing = max(missing, 0)
        if not 0 <= missing <= len(peer_req.token_ids):
            self._fail(req.rid, f"hand-off reaches {peer_req.loc} tokens, {req.loc} are known here")
            return
        fresh = peer_req.token_ids[len(peer_req.token_ids) - missing :]
        try:
            self._guard.receive(replace(peer_req, token_ids=fresh))
        except RouterFailedError as error:
            if not self._guard.forgive(req, error):
                return
        req.output_ids.extend(fresh)
        if message.sender != GROUP:
            self._table.set_anchor(req, self._peers.peer(message.sender), req.loc)
        req.arrived_loc = req.loc
        req.arrived_ns = message.sent_ns
        self._table.resume(req)
        self._stats.handoffs_received += 1
        self._stats.handoff_ready_seconds.observe((time.monotonic_ns() - message.sent_ns) * 1e-9)

    def _fail(self, handle: int, error: str) -> None:
        self._table.end(handle)
        self._peers.report(RequestFailed(handle, error))
