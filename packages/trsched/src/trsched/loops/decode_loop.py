"""The decode loop: start a batch when the policy says so, step, route, commit or hand over."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from trrouters import RouteResult
from trsched.engines.base import Engine, StepResult
from trsched.errors import RouterFailedError
from trsched.loops.local_request import LocalRequest
from trsched.loops.request_table import RequestTable
from trsched.loops.router_guard import RouterGuard
from trsched.request import TokenLogprobs
from trsched.shared.counters import SubserverStats
from trsched.wire.messages import RequestFailed, StepEvents
from trsched.wire.peers import Peers


@dataclass(frozen=True, slots=True)
class StepBatch:
    """Requests of one step by their engine sequence.

    fresh: one of them reads all tokens anew.
    """

    requests: dict[int, LocalRequest]
    fresh: bool


class DecodeLoop:
    """One turn is `start` → the engine's step → `finish`; the caller waits in between."""

    def __init__(
        self,
        index: int,
        engine: Engine,
        guard: RouterGuard,
        table: RequestTable,
        peers: Peers,
        stats: SubserverStats,
        *,
        degrade: bool,
    ) -> None:
        self._index = index
        self._degrade = degrade
        self._engine = engine
        self._guard = guard
        self._table = table
        self._peers = peers
        self._stats = stats

    def start(self) -> StepBatch | None:
        """The next batch: everything ready that has or gets KV, or None when there is nothing."""
        ready = self._table.ready
        batch: dict[int, LocalRequest] = {}
        fresh = False
        now = time.monotonic_ns()
        for req in list(ready):
            fresh |= self._table.reads_anew(req)
            if not self._table.bring_kv_up(req):
                continue
            assert req.seq is not None
            batch[req.seq] = req
            if req.arrived_ns:
                self._stats.handoff_seconds.observe((now - req.arrived_ns) * 1e-9)
                req.arrived_ns = 0
        return StepBatch(batch, fresh) if batch else None

    def step(self, batch: StepBatch) -> StepResult:
        """Run the engine."""
        result = self._engine.step(list(batch.requests))
        self._stats.steps += 1
        self._stats.batch_size.observe(len(batch.requests))
        self._stats.step_seconds.observe(result.duration)
        return result

    def finish(self, batch: StepBatch, result: StepResult) -> None:
        """Route every request that sampled a token; commit and report what stays or is kept."""
        began = time.perf_counter()
        requests = tuple(batch.requests[seq] for seq in result.seqs)
        if not requests:
            return
        for req, token in zip(requests, result.sampled.tolist(), strict=True):
            req.output_ids.append(token)
        destinations: Sequence[int | RouterFailedError] = [0] * len(requests)
        if not all(req.stays for req in requests):
            destinations = self._guard.route(
                RouteResult(requests, result.next_token_ids, result.logits_output)
            )
        decided = time.monotonic_ns()
        rows = _Rows(self._index)
        try:
            for row, req in enumerate(requests):
                peer = 0 if req.stays else destinations[row]
                if isinstance(peer, RouterFailedError):
                    if not self._guard.forgive(req, peer):
                        continue
                    peer = 0
                self._settle(req, peer, decided, rows, result.logprobs[row])
        finally:  # what was handed over or committed is reported, whatever became of the rest
            if rows.handles:
                self._peers.report(rows.events())
                self._stats.step_counters.moved(rows.moves)
        if not batch.fresh and len(requests) == len(batch.requests):
            took = result.duration + time.perf_counter() - began
            self._stats.step_counters.took(len(requests), took)

    def _settle(
        self,
        req: LocalRequest,
        peer: int,
        decided_ns: int,
        rows: _Rows,
        logprobs: TokenLogprobs | None,
    ) -> None:
        if peer and self._peers.is_dead(self._peers.subserver(peer)):
            if not self._degrade:
                self._fail(req, f"model {self._peers.subserver(peer)} is down")
                return
            rows.degraded.append(len(rows.handles))
            peer = 0
        if peer:
            self._hand_off(req, peer, decided_ns, rows)
        else:
            self._commit(req, rows, self._index)
        if logprobs is not None and rows.handles and rows.handles[-1] == req.rid:
            rows.logprobs[len(rows.handles) - 1] = logprobs

    def _commit(self, req: LocalRequest, rows: _Rows, owner: int) -> None:
        finish = req.finish()
        rows.add(req, len(req.output_ids) - 1, req.output_ids[-1], owner, finish)
        self._stats.tokens_committed += 1
        if finish:
            self._table.end(req.rid)

    def _hand_off(self, req: LocalRequest, peer: int, decided_ns: int, rows: _Rows) -> None:
        try:
            outgoing = self._guard.send(req, peer, decided_ns)
        except RouterFailedError as error:
            if self._guard.forgive(req, error):
                self._commit(req, rows, self._index)
            return
        owner = self._peers.subserver(peer)
        self._table.set_anchor(req, peer, outgoing.loc)
        self._table.park(req)
        # The peer may run before the client loop hears of this token: that loop orders by position.
        self._peers.hand_off(peer, outgoing.record)
        self._stats.handoffs_sent += 1
        if outgoing.loc == req.loc:
            self._commit(req, rows, owner)
        else:
            req.keep(outgoing.loc)
            rows.add(req, -1, -1, owner, 0)

    def _fail(self, req: LocalRequest, error: str) -> None:
        self._table.end(req.rid)
        self._peers.report(RequestFailed(req.rid, error))


class _Rows:
    """Collects the rows of a StepEvents, and of those that are routed, (owner, position)."""

    def __init__(self, model: int) -> None:
        self.model = model
        self.handles: list[int] = []
        self.positions: list[int] = []
        self.tokens: list[int] = []
        self.owners: list[int] = []
        self.finishes: list[int] = []
        self.degraded: list[int] = []
        self.logprobs: dict[int, TokenLogprobs] = {}
        self.moves: list[tuple[int, int]] = []

    def add(self, req: LocalRequest, position: int, token: int, owner: int, finish: int) -> None:
        self.handles.append(req.rid)
        self.positions.append(position)
        self.tokens.append(token)
        self.owners.append(owner)
        self.finishes.append(finish)
        if not req.stays:
            self.moves.append((owner, position))

    def events(self) -> StepEvents:
        return StepEvents(
            self.model,
            self.handles,
            self.positions,
            self.tokens,
            self.owners,
            self.finishes,
            self.degraded,
            self.logprobs,
        )
