"""The client loop: admission over the whole group, the streams of committed tokens, ends of requests.

All state of requests as the client sees them belongs to this loop's thread, so that every request
ends exactly once: submissions and aborts from other threads are only noted and the loop woken up.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from trcore import PeerRing, PendingTable, State
from trrouters import BaseRouter, PeerReq
from trsched.codec import GROUP, decode_report, encode_command, encode_hand_off
from trsched.messages import FINISHES, Admit, Command, Died, Failed, PeerDown, Release, StepEvents, Stop
from trsched.request import Event, FinalEvent, FinishReason, TokenEvent, TokenLogprobs
from trsched.stream import Deliver, Stream
from trsched.subserver import ActiveCount

_DEADLINE_CHECK_S = 0.05
_PUSH_PATIENCE_S = 30.0


@dataclass(slots=True, eq=False)
class _Active:
    """tokens: committed and delivered, in order. early: tokens by position that came before their
    predecessors. end: (number of tokens, reason) once a subserver has said how the request ends."""

    stream: Stream
    handle: int
    owner: int
    tokens: list[int] = field(default_factory=list)
    early: dict[int, TokenEvent] = field(default_factory=dict)
    end: tuple[int, FinishReason] | None = None
    handoffs: int = 0
    degraded: bool = False
    events: list[Event] = field(default_factory=list)


class ClientLoop:
    """Owns the requests of a group; `submit`, `abort` and `stop` may be called from any thread."""

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
    ) -> None:
        self._reports = reports
        self._rings = rings
        self._router = router
        self._deliver = deliver
        self._degrade = degrade
        self._on_death = on_death
        self._handles = PendingTable(slots, 1)
        self._expired = np.empty(slots, dtype=np.int64)
        self._active_count = active
        self._requests: dict[int, _Active] = {}
        self._by_stream: dict[Stream, _Active] = {}
        self._waiting: deque[tuple[Stream, float]] = deque()
        self._deadlines = 0
        self._submitted: deque[tuple[Stream, float]] = deque()
        self._aborted: deque[tuple[Stream, FinishReason]] = deque()
        self._stopping = False
        self._touched: dict[_Active, None] = {}
        self._finals: list[tuple[Stream, list[Event]]] = []
        self.alive = [True] * len(rings)
        self.finished: dict[str, int] = {}
        self.queued = 0
        self._queue_lock = threading.Lock()
        self.idle = threading.Event()
        self.idle.set()
        self._thread = threading.Thread(target=self._run, name="client-loop", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def submit(self, stream: Stream, limit: int) -> bool:
        """Queue a request for admission; False when `limit` are waiting already."""
        timeout = stream.request.timeout_s
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        with self._queue_lock:
            if self.queued >= limit:
                return False
            self.queued += 1
            self.idle.clear()
            self._submitted.append((stream, deadline))
        self._reports.wake()
        return True

    def abort(self, stream: Stream, reason: FinishReason) -> None:
        """End a request wherever it is; nothing happens if it has ended."""
        self._aborted.append((stream, reason))
        self._reports.wake()

    def stop(self) -> None:
        """End all requests (`shutdown`), then all subservers, then the loop; returns when it has ended."""
        self._stopping = True
        self._reports.wake()
        self._thread.join()

    @property
    def active(self) -> int:
        """Requests admitted and not yet ended."""
        return self._active_count.value

    def _run(self) -> None:
        while not self._stopping:
            self._reports.wait(_DEADLINE_CHECK_S if self._deadlines else None)
            self.turn()
        self._end_all("shutdown")
        self._flush()
        for index in range(len(self._rings)):
            self._send(index, Stop())

    def turn(self) -> None:
        """Handle everything that has come in, then deliver it."""
        for record in self._reports.drain():
            match decode_report(record):
                case StepEvents() as events:
                    self._step(events)
                case Failed(handle, error):
                    self._fail(self._requests.get(handle), error)
                case Died(index, error):
                    self._died(index, error)
        while self._submitted:
            self._waiting.append(self._submitted.popleft())
            self._deadlines += self._waiting[-1][0].request.timeout_s is not None
        while self._aborted:
            self._abort(*self._aborted.popleft())
        if self._deadlines:
            self._expire()
        self._admit_waiting()
        self._flush()
        with self._queue_lock:
            if not self._requests and self.queued == 0:
                self.idle.set()

    # --- admission

    def _admit_waiting(self) -> None:
        while self._waiting:
            stream, deadline = self._waiting[0]
            handle = self._handles.allocate(State.RUNNING, deadline)
            if handle < 0:
                return
            self._waiting.popleft()
            with self._queue_lock:
                self.queued -= 1
            self._admit(stream, handle)

    def _admit(self, stream: Stream, handle: int) -> None:
        request = stream.request
        entry = self._router.entry(request.sampling.seed)
        active = _Active(stream, handle, entry)
        self._requests[handle] = self._by_stream[stream] = active
        self._active_count.value += 1
        if not self.alive[entry]:
            if not self._may_degrade():
                self._fail(active, f"model {entry} is down")
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
        )
        # Peers first: when the entry hands the request over, they know it.
        for index in sorted(range(len(self._rings)), key=lambda index: index == entry):
            self._send(index, admit)

    # --- tokens

    def _step(self, events: StepEvents) -> None:
        for row, handle in enumerate(events.handles):
            active = self._requests.get(handle)
            if active is None:
                continue  # it ended while the step ran
            active.handoffs += events.owners[row] != events.model
            active.owner = events.owners[row]
            active.degraded |= row in events.degraded
            if events.positions[row] >= 0:
                logprobs = events.logprobs.get(row)
                self._token(active, events.positions[row], events.tokens[row], events.model, logprobs)
            if events.finishes[row]:
                reason: FinishReason = "stop" if FINISHES[events.finishes[row]] == "stop" else "length"
                active.end = (events.positions[row] + 1, reason)
            if active.end is not None and len(active.tokens) == active.end[0]:
                self._end(active, active.end[1])
            elif not self.alive[active.owner]:
                self._take_over(active)

    def _token(
        self, active: _Active, position: int, token: int, model: int, logprobs: TokenLogprobs | None
    ) -> None:
        active.early[position] = TokenEvent(position, token, model, logprobs)
        while (event := active.early.pop(len(active.tokens), None)) is not None:
            active.tokens.append(event.token_id)
            active.events.append(event)
            self._touched[active] = None

    # --- ends

    def _abort(self, stream: Stream, reason: FinishReason) -> None:
        active = self._by_stream.get(stream)
        if active is not None:
            self._end(active, reason)
            return
        for item in self._waiting:
            if item[0] is stream:
                self._waiting.remove(item)
                self._end_waiting(stream, reason)
                return

    def _end_waiting(self, stream: Stream, reason: FinishReason) -> None:
        self._deadlines -= stream.request.timeout_s is not None
        with self._queue_lock:
            self.queued -= 1
        self._count(reason)
        self._finals.append((stream, [FinalEvent(reason)]))

    def _expire(self) -> None:
        now = time.monotonic()
        for handle in self._expired[: self._handles.expire(now, self._expired)].tolist():
            if handle in self._requests:
                self._end(self._requests[handle], "deadline")
        overdue = [item for item in self._waiting if item[1] <= now]
        for item in overdue:
            self._waiting.remove(item)
            self._end_waiting(item[0], "deadline")

    def _fail(self, active: _Active | None, error: str) -> None:
        if active is not None:
            self._end(active, "error", error)

    def _end(self, active: _Active, reason: FinishReason, error: str | None = None) -> None:
        self._handles.transition(active.handle, State.RUNNING, State.FINISHED)
        del self._requests[active.handle]
        del self._by_stream[active.stream]
        self._deadlines -= active.stream.request.timeout_s is not None
        self._active_count.value -= 1  # before the releases, which make subservers look at it again
        for index in range(len(self._rings)):
            self._send(index, Release(active.handle))
        self._handles.release(active.handle)
        self._touched.pop(active, None)
        self._count(reason)
        final = FinalEvent(reason, active.handoffs, active.degraded, error)
        self._finals.append((active.stream, [*active.events, final]))

    def _end_all(self, reason: FinishReason) -> None:
        for active in list(self._requests.values()):
            self._end(active, reason)
        self._waiting.extend(self._submitted)
        for stream, _ in self._waiting:
            self._end_waiting(stream, reason)
        self._waiting.clear()

    # --- death of a subserver

    def _died(self, index: int, error: str) -> None:
        self.alive[index] = False
        self._on_death(index, error)
        for other in range(len(self._rings)):
            self._send(other, PeerDown(index))
        for active in list(self._requests.values()):
            if active.owner == index:
                self._take_over(active)

    def _may_degrade(self) -> bool:
        return self._degrade and self._router.degradable and any(self.alive)

    def _take_over(self, active: _Active) -> None:
        """Give a dead subserver's request, with all tokens committed so far, to a living one."""
        dead = active.owner
        if not self._may_degrade():
            self._fail(active, f"model {dead} died")
            return
        survivor = self.alive.index(True)
        active.owner = survivor
        active.degraded = True
        tokens = active.stream.request.prompt_ids + active.tokens
        record = encode_hand_off(PeerReq(active.handle, tokens, len(tokens)), GROUP, time.monotonic_ns())
        self._push(survivor, record)

    # --- out

    def _flush(self) -> None:
        batch: list[tuple[Stream, list[Event]]] = []
        for active in self._touched:
            batch.append((active.stream, active.events))
            active.events = []
        self._touched.clear()
        batch.extend(self._finals)
        self._finals = []
        if batch:
            self._deliver(batch)

    def _count(self, reason: FinishReason) -> None:
        self.finished[reason] = self.finished.get(reason, 0) + 1

    def _send(self, index: int, command: Command) -> None:
        if self.alive[index]:
            self._push(index, encode_command(command))

    def _push(self, index: int, record: bytes) -> None:
        ring = self._rings[index]
        if not ring.push(record) and ring.push_many([record], _PUSH_PATIENCE_S) == 0:
            self.alive[index] = False
            self._on_death(index, f"took nothing from its ring for {_PUSH_PATIENCE_S:.0f} s")
