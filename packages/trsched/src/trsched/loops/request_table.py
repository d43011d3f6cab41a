"""The requests of one subserver: who is ready to step, who is pending, who holds KV."""

from __future__ import annotations

from trcore import PendingTable, State
from trsched.engines.base import Engine
from trsched.loops.local_request import LocalRequest
from trsched.request import ModelSampling
from trsched.shared.counters import SubserverStats
from trsched.wire.messages import Admit


class RequestTable:
    """States and KV of the requests of one subserver. Used by the subserver's thread alone.

    `ready` requests (state running) wait for the next batch in order of arrival; pending ones keep
    their KV until it is needed elsewhere. The PendingTable holds states, generations and anchors,
    so that a message for a request that has ended finds a dead handle and does no harm.

    staying: how many never leave this model; they are always ready.
    sampling: the model's own, which every sequence of it is started with.
    keep_kv: whether a pending request keeps its KV.
    """

    def __init__(
        self,
        slots: int,
        models: int,
        engine: Engine,
        stats: SubserverStats,
        sampling: ModelSampling,
        *,
        keep_kv: bool = True,
    ) -> None:
        self._states = PendingTable(slots, models)
        self._engine = engine
        self._stats = stats
        self._sampling = sampling
        self._keep_kv = keep_kv
        self._by_slot: list[LocalRequest | None] = [None] * slots
        self._holders: dict[LocalRequest, None] = {}  # pending with KV, longest pending first
        self._returned: dict[LocalRequest, None] = {}  # came back with KV and haven't run since
        self.ready: dict[LocalRequest, None] = {}
        self.staying = 0

    def admit(self, admit: Admit, *, ready: bool) -> bool:
        """Take a new request; False if its slot is still in use or its handle is dead."""
        state = State.RUNNING if ready else State.PENDING
        if not self._states.adopt(admit.handle, state):
            return False
        req = LocalRequest(admit, self._states)
        for peer in range(1, self._states.peers):
            self._states.set_anchor(admit.handle, peer, req.loc)  # everyone is told the prompt
        self._by_slot[PendingTable.slot(admit.handle)] = req
        self.staying += req.stays
        if ready:
            self.ready[req] = None
        return True

    def get(self, handle: int) -> LocalRequest | None:
        """The live request of that handle."""
        if self._states.state(handle) is State.STALE:
            return None
        return self._by_slot[PendingTable.slot(handle)]

    def is_pending(self, req: LocalRequest) -> bool:
        """Whether the request waits for a peer."""
        return self._states.state(req.rid) is State.PENDING

    def resume(self, req: LocalRequest) -> bool:
        """Pending → running: ready for the next batch."""
        if not self._states.transition(req.rid, State.PENDING, State.RUNNING):
            return False
        self._holders.pop(req, None)
        self.ready[req] = None
        if req.seq is not None:
            self._returned[req] = None
        if req.seq is not None and req.given == req.loc:
            # It comes back with nothing new: its last token runs again, for its logits.
            req.given -= 1
            self._engine.truncate(req.seq, req.given)
        return True

    def park(self, req: LocalRequest) -> None:
        """Running → pending: skipped by the decode loop, its KV kept (or not, if so configured)."""
        self._states.transition(req.rid, State.RUNNING, State.PENDING)
        self.ready.pop(req, None)
        if not self._keep_kv:
            self._free_kv(req)
        if req.seq is not None:
            self._holders[req] = None

    def set_anchor(self, req: LocalRequest, peer: int, loc: int) -> None:
        """Peer `peer` holds the first `loc` tokens."""
        self._states.set_anchor(req.rid, peer, loc)

    def end(self, handle: int) -> bool:
        """Forget a request in whatever state and free its KV; False if it is gone already."""
        req = self.get(handle)
        if req is None:
            return False
        self.ready.pop(req, None)
        self.staying -= req.stays
        self._free_kv(req)
        for state in (State.RUNNING, State.PENDING):
            self._states.transition(handle, state, State.FINISHED)
        self._by_slot[PendingTable.slot(handle)] = None
        return self._states.release(handle)

    def reads_anew(self, req: LocalRequest) -> bool:
        """Whether its next step takes in all its tokens, out of the ordinary.

        New here, or its KV was taken. Where pending requests keep none, it is the ordinary.
        """
        return req.seq is None and (self._keep_kv or not req.arrived_ns)

    def bring_kv_up(self, req: LocalRequest) -> bool:
        """Give the engine the request's tokens that it lacks; False if no KV can be had now.

        Called in order of arrival. A new sequence may take the KV of the request that has been
        pending longest, else of the one that came back last and hasn't run since (it would
        otherwise overtake this one, again and again); that one recomputes. Requests that run are
        never robbed.
        """
        self._returned.pop(req, None)
        if req.seq is not None:
            if req.given < req.loc:
                self._engine.append(req.seq, req.tokens_from(req.given))
                req.given = req.loc
            return True
        capacity = self._engine.capacity()
        if capacity.sequences_used == capacity.sequences:
            victim = next(iter(self._holders), None) or next(reversed(self._returned), None)
            if victim is None:
                return False
            self._free_kv(victim)
            self._stats.kv_reclaims += 1
        req.seq = self._engine.start(req.tokens_from(0), self._sampling.over(req.sampling))
        req.given = req.loc
        return True

    def record_states(self) -> None:
        """Write the counts of states and KV into the stats."""
        _, running, pending, _ = self._states.counts()
        capacity = self._engine.capacity()
        stats = self._stats
        stats.waiting = len(self.ready)
        stats.running = running
        stats.pending = pending
        stats.sequences_used = capacity.sequences_used
        stats.kv_tokens_used = capacity.tokens_used
        stats.kv_tokens_capacity = capacity.tokens

    def _free_kv(self, req: LocalRequest) -> None:
        self._holders.pop(req, None)
        self._returned.pop(req, None)
        if req.seq is not None:
            self._engine.release(req.seq)
            req.seq = None
            req.given = 0
