"""The client loop: admission over the group, the streams of committed tokens, ends of requests.

All state of requests as the client sees them belongs to this loop's thread, so that every request
ends exactly once: submissions and aborts from other threads are only noted and the loop woken up.
"""

from __future__ import annotations

import operator
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from trcore import PeerRing
from trrouters import BaseRouter, PeerReq, RouterOutputError
from trsched.loops.active_request import ActiveRequest
from trsched.loops.active_requests import ActiveRequests
from trsched.loops.admission import AdmissionQueue, Waiting
from trsched.loops.delivery import Delivery
from trsched.loops.rescue import fate, may_move
from trsched.loops.router_guard import describe
from trsched.loops.stream import Deliver, Stream
from trsched.loops.subserver_links import SubserverLinks
from trsched.request import FinalEvent, FinishReason, GenerateRequest, TokenEvent
from trsched.shared.active_count import ActiveCount
from trsched.wire.codec import GROUP, decode_report, encode_command, encode_hand_off
from trsched.wire.messages import (
    FINISHES,
    Admit,
    Degraded,
    Died,
    PeerDown,
    Release,
    RequestFailed,
    RouterFailed,
    StepEvents,
)
from trsched.wire.patient_push import PATIENCE_S

_DEADLINE_CHECK_S = 0.05


class ClientLoop:
    """Owns the requests of a group; `submit`, `abort` and `stop` may be called from any thread.

    reports: this loop's ring.
    rings: the subservers' inboxes.
    router: names the model where a request enters.
    slots: most requests at once.
    active: kept up to date, for the subservers.
    deliver: gets the events of every turn.
    degrade: whether requests go on without a model that died.
    on_death: told a subserver's index and the error.
    on_router_error: told a subserver's index and the error.
    patience_s: a subserver that takes nothing for so long is dead.
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
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._reports = reports
        self._subservers = SubserverLinks(rings, patience_s, self._died)
        self._router = router
        self._delivery = Delivery(deliver)
        self._degrade = degrade
        self._on_death = on_death
        self._on_router_error = on_router_error
        self._active_count = active
        self._requests = ActiveRequests(slots, active)
        self._queue = AdmissionQueue()
        self._aborted: deque[tuple[Stream, FinishReason]] = deque()
        self._stopping = False
        self.idle = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="client-loop", daemon=True)

    @property
    def alive(self) -> list[bool]:
        """By subserver."""
        return self._subservers.alive

    @property
    def finished(self) -> Mapping[str, int]:
        """Requests that have ended, by reason."""
        return self._delivery.finished

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
                timed = self._requests.timed or self._queue.timed
                self._reports.wait(_DEADLINE_CHECK_S if timed else None)
                self.turn()
            for active in self._requests.all():
                self._end(active, "shutdown")
            for item in self._queue.close():
                self._end_waiting(item, "shutdown")
            self._delivery.flush()
        finally:  # also when `deliver`, others' code, raised: `submit` and `close` know of it then
            self._queue.close()
            self._subservers.stop_all()

    def turn(self) -> None:
        """Handle everything that has come in, then deliver it."""
        for record in self._reports.drain():
            match decode_report(record):
                case StepEvents() as events:
                    self._step(events)
                case RequestFailed(handle, error):
                    if (active := self._requests.get(handle)) is not None:
                        self._end(active, "error", error)
                case Degraded(handle):
                    if (active := self._requests.get(handle)) is not None:
                        active.degraded = True
                case RouterFailed(index, error):
                    self._on_router_error(index, error)
                case Died(index, error, abrupt):
                    self._died(index, error, abrupt=abrupt)
        while self._aborted:
            self._abort(*self._aborted.popleft())
        self._expire()
        self._admit_waiting()
        self._delivery.flush()
        with self.idle:
            self.idle.notify_all()

    # --- admission

    def _admit_waiting(self) -> None:
        while (item := self._queue.first()) is not None:
            active = self._requests.add(item)
            if active is None:
                return
            self._admit(active)
            self._queue.remove(item)

    def _admit(self, active: ActiveRequest) -> None:
        request = active.stream.request
        try:
            active.owner = entry = self._entry(request)
        except BaseException as error:  # noqa: BLE001 - third-party code, on this loop's thread
            self._end(active, "error", f"router failed: {describe(error)}")
            return
        if not self.alive[entry]:
            if not self._may_move(active):
                self._end(active, "error", f"model {entry} is down")
                return
            active.owner = entry = self.alive.index(True)
            active.degraded = True
        admit = Admit(
            active.handle,
            entry,
            request.prompt_ids,
            request.sampling,
            request.max_tokens,
            sorted(request.stop_token_ids),
            request.threshold,
            stays=not active.routed,
        )
        record = encode_command(admit)
        if len(record) > self._subservers.max_record_bytes:
            self._end(
                active, "error", f"the request takes {len(record)} bytes, too many for a ring"
            )
            return
        # Peers first: when the entry hands the request over, they know it.
        for index in sorted(range(len(self._subservers)), key=lambda index: index == entry):
            if self.alive[index] and (index == entry or not admit.stays):
                self._subservers.push(index, record)

    def _entry(self, request: GenerateRequest) -> int:
        if request.only is not None:
            return request.only
        entry = int(operator.index(self._router.entry(request.sampling.seed)))
        if not 0 <= entry < len(self._subservers):
            raise RouterOutputError(f"entry named model {entry} of {len(self._subservers)}")
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
                    self._delivery.changed(active)
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
        if (active := self._requests.of(stream)) is not None:
            self._end(active, reason)
        elif (item := self._queue.find(stream)) is not None:
            self._end_waiting(item, reason)

    def _expire(self) -> None:
        now = time.monotonic()
        for active in self._requests.overdue(now):
            self._end(active, "deadline")
        if self._queue.timed:
            for item in self._queue.overdue(now):
                self._end_waiting(item, "deadline")

    def _end_waiting(self, item: Waiting, reason: FinishReason) -> None:
        self._queue.remove(item)
        self._delivery.end_waiting(item.stream, FinalEvent(reason))

    def _end(self, active: ActiveRequest, reason: FinishReason, error: str | None = None) -> None:
        # first, for the count of active requests: a release makes subservers look at it again
        self._requests.remove(active)
        self._subservers.tell_all(Release(active.handle))
        final = FinalEvent(reason, active.handoffs, active.degraded, error)
        self._delivery.end(active, final)

    # --- death of a subserver

    def _died(self, index: int, error: str, *, abrupt: bool = False) -> None:
        if not self.alive[index]:
            return  # told before, by itself or by somebody who gave it up
        self._subservers.mark_dead(index)
        self._on_death(index, error)
        self._subservers.tell_all(PeerDown(index))
        for active in self._requests.all():
            if active not in self._requests:
                continue  # another model has died meanwhile
            if abrupt and active.routed and not self._may_move(active):  # who has it?
                self._end(active, "error", f"model {index} died")
            else:
                self._rescue(active)

    def _rescue(self, active: ActiveRequest) -> None:
        """See to a request when a model is dead."""
        match fate(active, self.alive, degrade=self._degrade):
            case "moves":
                self._take_over(active)
            case "model died":
                self._end(active, "error", f"model {active.owner} died")
            case "token lost":
                self._end(active, "error", "a token was lost with the model that made it")

    def _may_move(self, active: ActiveRequest) -> bool:
        return may_move(active, self.alive, degrade=self._degrade)

    def _take_over(self, active: ActiveRequest) -> None:
        """Give a dead subserver's request, with all tokens committed so far, to a living one."""
        active.owner = self.alive.index(True)
        active.degraded = True
        tokens = active.stream.request.prompt_ids + active.tokens
        takeover = PeerReq(active.handle, tokens, len(tokens))
        self._subservers.push(active.owner, encode_hand_off(takeover, GROUP, time.monotonic_ns()))
