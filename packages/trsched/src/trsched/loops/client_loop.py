"""The client loop: admission over the group, the streams of committed tokens, ends of requests.

All state of requests as the client sees them belongs to this loop's thread, so that every request
ends exactly once: submissions and aborts from other threads are only noted and the loop woken up.
"""

from __future__ import annotations

import operator
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress

import numpy as np

from trcore import PeerRing, PendingTable, State
from trrouters import BaseRouter, PeerReq, RouterOutputError
from trsched.loops.active_request import ActiveRequest
from trsched.loops.admission import AdmissionQueue, Waiting
from trsched.loops.router_guard import describe
from trsched.loops.stream import Deliver, Stream
from trsched.request import Event, FinalEvent, FinishReason, GenerateRequest, TokenEvent
from trsched.shared.active_count import ActiveCount
from trsched.wire.codec import GROUP, decode_report, encode_command, encode_hand_off
from trsched.wire.messages import (
    FINISHES,
    Admit,
    Command,
    Degraded,
    Died,
    Failed,
    PeerDown,
    Release,
    RouterFailed,
    StepEvents,
    Stop,
)
from trsched.wire.patient_push import TAKES_NOTHING, push_patiently

_DEADLINE_CHECK_S = 0.05


class ClientLoop:
    """Owns the requests of a group; `submit`, `abort` and `stop` may be called from any thread.

    reports: this loop's ring. rings: the subservers' inboxes. slots: most requests at once.
    degrade: whether requests go on without a model that died. on_death, on_router_error: told the
    subserver's index and the error.
    """

    def __init__(
        self,
        reports: PeerRing,
        rings: Sequence[PeerRing],
        router: BaseRouter,
        *,
        slots: int,
        active: ActiveCount,
        deliver: Deliver,
        degrade: bool,
        on_death: Callable[[int, str], None],
        on_router_error: Callable[[int, str], None],
    ) -> None:
        self._reports = reports
        self._rings = rings
        self._router = router
        self._deliver = deliver
        self._degrade = degrade
        self._on_death = on_death
        self._on_router_error = on_router_error
        self._handles = PendingTable(slots, 1)
        self._expired = np.empty(slots, dtype=np.int64)
        self._active_count = active
        self._requests: dict[int, ActiveRequest] = {}
        self._by_stream: dict[Stream, ActiveRequest] = {}
        self._queue = AdmissionQueue()
        self._aborted: deque[tuple[Stream, FinishReason]] = deque()
        self._timed = 0  # active requests that have a deadline
        self._stopping = False
        self._changed: dict[ActiveRequest, None] = {}
        self._finals: list[tuple[Stream, list[Event]]] = []
        self.alive = [True] * len(rings)
        self.finished: Counter[str] = Counter()
        self.idle = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="client-loop", daemon=True)

    @property
    def active(self) -> int:
        """Requests admitted and not yet ended."""
        return self._active_count.value

    @property
    def queued(self) -> int:
        """Requests not yet admitted."""
        return len(self._queue)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def submit(self, stream: Stream, limit: int) -> bool:
        """Queue a request for admission; False when `limit` are waiting already."""
        if not self._queue.put(stream, limit):
            return False
        self._reports.wake()
        return True

    def abort(self, stream: Stream, reason: FinishReason) -> None:
        """End a request wherever it is; nothing happens if it has ended."""
        self._aborted.append((stream, reason))
        self._reports.wake()

    def wait_idle(self, timeout: float | None) -> bool:
        """Wait until no request is active or waiting; False if that took too long."""
        with self.idle:
            return self.idle.wait_for(lambda: not self._requests and not self._queue, timeout)

    def stop(self) -> None:
        """End all requests (`shutdown`), then all subservers, then the loop; wait for it."""
        self._stopping = True
        self._reports.wake()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._stopping:
                timed = self._timed or self._queue.timed
                self._reports.wait(_DEADLINE_CHECK_S if timed else None)
                self.turn()
            for active in list(self._requests.values()):
                self._end(active, "shutdown")
            for item in self._queue.close():
                self._end_waiting(item, "shutdown")
            self._flush()
        finally:  # also when `deliver`, others' code, raised: `submit` and `close` know of it then
            self._queue.close()
            stop = encode_command(Stop())
            for index, ring in enumerate(self._rings):
                if self.alive[index]:
                    self._push(index, stop)
                else:  # it may live yet, if it is thought dead because its ring was full
                    with suppress(BrokenPipeError):
                        ring.push(stop)
            self.alive = [False] * len(self._rings)

    def turn(self) -> None:
        """Handle everything that has come in, then deliver it."""
        for record in self._reports.drain():
            match decode_report(record):
                case StepEvents() as events:
                    self._step(events)
                case Failed(handle, error):
                    if handle in self._requests:
                        self._end(self._requests[handle], "error", error)
                case Degraded(handle):
                    if handle in self._requests:
                        self._requests[handle].degraded = True
                case RouterFailed(index, error):
                    self._on_router_error(index, error)
                case Died(index, error, abrupt):
                    self._died(index, error, abrupt=abrupt)
        while self._aborted:
            self._abort(*self._aborted.popleft())
        self._expire()
        self._admit_waiting()
        self._flush()
        with self.idle:
            self.idle.notify_all()

    # --- admission

    def _admit_waiting(self) -> None:
        while (item := self._queue.first()) is not None:
            handle = self._handles.allocate(State.RUNNING, item.deadline)
            if handle < 0:
                return
            self._admit(item.stream, handle)
            self._queue.remove(item)

    def _admit(self, stream: Stream, handle: int) -> None:
        request = stream.request
        active = ActiveRequest(stream, handle, owner=0)
        self._requests[handle] = self._by_stream[stream] = active
        self._timed += request.timeout_s is not None
        self._active_count.change(1, routed=active.routed)
        try:
            active.owner = entry = self._entry(request)
        except BaseException as error:  # noqa: BLE001 - third-party code, on this loop's thread
            self._end(active, "error", f"router failed: {describe(error)}")
            return
        if not self.alive[entry]:
            if not self._may_degrade(active):
                self._end(active, "error", f"model {entry} is down")
                return
            active.owner = entry = self.alive.index(True)
            active.degraded = True
        admit = Admit(
            handle,
            entry,
            request.prompt_ids,
            request.sampling,
            request.max_tokens,
            sorted(request.stop_token_ids),
            request.threshold,
            stays=not active.routed,
        )
        record = encode_command(admit)
        if len(record) > min(ring.max_record_bytes for ring in self._rings):
            self._end(
                active, "error", f"the request takes {len(record)} bytes, too many for a ring"
            )
            return
        # Peers first: when the entry hands the request over, they know it.
        for index in sorted(range(len(self._rings)), key=lambda index: index == entry):
            if self.alive[index] and (index == entry or not admit.stays):
                self._push(index, record)

    def _entry(self, request: GenerateRequest) -> int:
        if request.only is not None:
            return request.only
        entry = int(operator.index(self._router.entry(request.sampling.seed)))
        if not 0 <= entry < len(self._rings):
            raise RouterOutputError(f"entry named model {entry} of {len(self._rings)}")
        return entry

    # --- tokens

    def _step(self, events: StepEvents) -> None:
        for row, handle in enumerate(events.handles):
            active = self._requests.get(handle)
            if active is None:
                continue  # it ended while the step ran
            position, owner = events.positions[row], events.owners[row]
            active.handoffs += owner != events.model
            # Models' reports overtake one another: the sum of all hand-offs is right in any order.
            active.owner += owner - events.model
            active.degraded |= row in events.degraded
            if position >= 0:
                logprobs = events.logprobs.get(row)
                active.commit(TokenEvent(position, events.tokens[row], events.model, logprobs))
                if active.events:  # else it is early, and waits for another model's
                    self._changed[active] = None
            if events.finishes[row]:
                active.end = (position + 1, FINISHES[events.finishes[row]])
                active.ended_by = events.model
            if active.complete():
                assert active.end is not None
                self._end(active, active.end[1])
            elif not all(self.alive):
                self._rescue(active)

    # --- ends

    def _abort(self, stream: Stream, reason: FinishReason) -> None:
        if stream in self._by_stream:
            self._end(self._by_stream[stream], reason)
        elif (item := self._queue.find(stream)) is not None:
            self._end_waiting(item, reason)

    def _expire(self) -> None:
        now = time.monotonic()
        if self._timed:
            for handle in self._expired[: self._handles.expire(now, self._expired)].tolist():
                self._end(self._requests[handle], "deadline")
        if self._queue.timed:
            for item in self._queue.overdue(now):
                self._end_waiting(item, "deadline")

    def _end_waiting(self, item: Waiting, reason: FinishReason) -> None:
        self._queue.remove(item)
        self.finished[reason] += 1
        self._finals.append((item.stream, [FinalEvent(reason)]))

    def _end(self, active: ActiveRequest, reason: FinishReason, error: str | None = None) -> None:
        del self._requests[active.handle]
        del self._by_stream[active.stream]
        self._timed -= active.stream.request.timeout_s is not None
        # before the releases: they make subservers look at it again
        self._active_count.change(-1, routed=active.routed)
        self._tell_all(Release(active.handle))
        self._handles.transition(active.handle, State.RUNNING, State.FINISHED)
        self._handles.release(active.handle)
        self._changed.pop(active, None)
        self.finished[reason] += 1
        final = FinalEvent(reason, active.handoffs, active.degraded, error)
        self._finals.append((active.stream, [*active.take_events(), final]))

    # --- death of a subserver

    def _died(self, index: int, error: str, *, abrupt: bool = False) -> None:
        if not self.alive[index]:
            return  # told before, by itself or by somebody who gave it up
        self.alive[index] = False
        self._on_death(index, error)
        self._tell_all(PeerDown(index))
        for handle, active in list(self._requests.items()):
            if handle not in self._requests:
                continue  # another model has died meanwhile
            if abrupt and active.routed and not self._may_degrade(active):  # who has it?
                self._end(active, "error", f"model {index} died")
            else:
                self._rescue(active)

    def _rescue(self, active: ActiveRequest) -> None:
        """See to a request when a model is dead; of a pair, it has reported all it ever will then.

        Killed after a hand-off and before its report, it leaves an owner that cannot be, beyond
        itself (its report would have moved it back), or a token that nobody knows, from which the
        other model wrote on.
        """
        owner = active.owner
        lost = self._degrade and (owner > 1 if self.alive[0] else owner < 0)
        if self._degrade and active.end is not None and self.alive[active.ended_by]:
            self._end(active, "error", "a token was lost with the model that made it")
        elif lost or (0 <= owner < len(self.alive) and not self.alive[owner]):
            self._take_over(active)

    def _may_degrade(self, active: ActiveRequest) -> bool:
        return self._degrade and active.routed and any(self.alive)

    def _take_over(self, active: ActiveRequest) -> None:
        """Give a dead subserver's request, with all tokens committed so far, to a living one."""
        if not self._may_degrade(active):
            self._end(active, "error", f"model {active.owner} died")
            return
        active.owner = self.alive.index(True)
        active.degraded = True
        tokens = active.stream.request.prompt_ids + active.tokens
        takeover = PeerReq(active.handle, tokens, len(tokens))
        self._push(active.owner, encode_hand_off(takeover, GROUP, time.monotonic_ns()))

    # --- out

    def _flush(self) -> None:
        batch = [(active.stream, active.take_events()) for active in self._changed]
        self._changed.clear()
        batch.extend(self._finals)
        self._finals = []
        if batch:
            self._deliver(batch)

    def _tell_all(self, command: Command) -> None:
        record = encode_command(command)
        for index in range(len(self._rings)):
            if self.alive[index]:
                self._push(index, record)

    def _push(self, index: int, record: bytes) -> None:
        if not push_patiently(self._rings[index], record):
            self._died(index, TAKES_NOTHING)
