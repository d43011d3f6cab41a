"""A group: the models that write one response together, behind `submit` and `abort`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext

import msgspec

from trcore import PeerRing
from trsched.active_count import ActiveCount
from trsched.check import GroupPlan
from trsched.client_loop import ClientLoop
from trsched.config import GroupConfig
from trsched.delayed_batching import delayed_batching
from trsched.engines.base import Engine
from trsched.engines.open_engine import open_engine
from trsched.errors import (
    ConfigError,
    EngineError,
    GroupUnavailableError,
    QueueFullError,
    RequestError,
    RequestTooLongError,
)
from trsched.fetch import fetch_and_check
from trsched.lease import Lease
from trsched.lockstep import Lockstep
from trsched.peers import Peers
from trsched.request import FinishReason, GenerateRequest
from trsched.starts import DelayedStarts, LockstepStarts, Starts
from trsched.stats import GroupStatus, SubserverStats
from trsched.step_counters import StepCounters
from trsched.stream import Deliver, Stream, deliver_to_streams
from trsched.subserver import Subserver
from trsched.vocabulary import Vocabulary

Report = Callable[[str], None]

_RECORD_OVERHEAD = 512
_LARGEST_INBOX = 1 << 28


def _say_nothing(line: str) -> None:
    del line


class Group:
    """Subservers, their rings and the client loop, in one process.

    `submit` and `abort` may be called from any thread and never block on a model.
    """

    def __init__(
        self,
        plan: GroupPlan,
        engines: Sequence[Engine],
        deliver: Deliver = deliver_to_streams,
        report: Report = _say_nothing,
    ) -> None:
        self.config = plan.config
        self.plan = plan
        self.vocabulary: Vocabulary = plan.vocabularies[0]
        self._draining = False
        self._closed = False
        count = len(engines)
        slots = plan.max_active
        # An inbox holds, for every request, its admission, one hand-off and its release (a full one
        # only holds its senders up).
        inbox_bytes = slots * 2 * (8 * plan.kv.context + _RECORD_OVERHEAD) + (1 << 16)
        inbox_bytes = min(inbox_bytes, _LARGEST_INBOX)
        rings = [PeerRing.heap(inbox_bytes) for _ in range(count)]
        reports = PeerRing.heap(1 << 20)
        active = ActiveCount()
        # Pairs only: who has a request is certain there, whatever order models' reports come in.
        degrade = (
            plan.config.on_peer_death == "degrade" and plan.routers[0].degradable and count == 2
        )
        stats = [SubserverStats(engine.spec.name, StepCounters(count, slots)) for engine in engines]
        thresholds, self._tuner = delayed_batching(plan, stats, rings, active, report)
        turns = nullcontext() if plan.config.overlap else Lease()
        lockstep = Lockstep(rings) if plan.config.execution == "lockstep" else None
        starts: list[Starts] = [
            DelayedStarts(index, thresholds, active, stats[index])
            if lockstep is None
            else LockstepStarts(index, lockstep, active)
            for index in range(count)
        ]
        self.subservers = [
            Subserver(
                index,
                engine,
                plan.routers[index],
                rings[index],
                Peers(index, rings, reports),
                starts[index],
                turns,
                stats[index],
                slots=slots,
                keep_kv=plan.config.handoff == "resume",
                degrade=degrade,
                forgiving=plan.config.on_router_error == "continue",
                sampling=plan.config.models[index].sampling,
            )
            for index, engine in enumerate(engines)
        ]
        self._client_loop = ClientLoop(
            reports,
            rings,
            plan.routers[0],
            slots=slots,
            active=active,
            deliver=deliver,
            degrade=degrade,
            on_death=lambda index, error: report(
                f"model {index} {engines[index].spec.name} died: {error}"
            ),
            on_router_error=lambda index, error: report(
                f"the router of model {index} {engines[index].spec.name} failed: {error}"
            ),
        )
        for subserver in self.subservers:
            subserver.run_in_thread()
        self._client_loop.start()
        if self._tuner is not None:
            self._tuner.start()

    @classmethod
    def open(
        cls,
        config: GroupConfig,
        *,
        deliver: Deliver = deliver_to_streams,
        report: Report = _say_nothing,
    ) -> Group:
        """Check, load and start a group; takes as long as loading the models.

        report: gets a line for people at each stage. Raises ConfigError.
        """
        plan = fetch_and_check(config, report)
        for line in plan.lines():
            report(line)
        engines: list[Engine] = []
        try:
            for index, model in enumerate(plan.config.models):
                try:
                    engines.append(open_engine(plan, index, report))
                except EngineError as error:
                    raise ConfigError(
                        f"models[{index}]", f"{model.name!r} cannot be loaded: {error}"
                    ) from error
        except BaseException:
            for engine in engines:
                engine.close()
            raise
        return cls(plan, engines, deliver, report)

    def submit(self, request: GenerateRequest) -> Stream:
        """Queue a request; its events come through the group's `deliver`.

        Raises RequestTooLongError, QueueFullError, GroupUnavailableError or RequestError.
        """
        request = _typed(request)
        self._check(request)
        stream = Stream(request)
        if not self._client_loop.submit(stream, self.config.max_queue + self._free_slots()):
            if self._draining:
                raise GroupUnavailableError("the server is shutting down")
            raise QueueFullError(f"{self.config.max_queue} requests are waiting already")
        return stream

    def abort(self, stream: Stream, reason: FinishReason = "abort") -> None:
        """End a request, wherever it is; its final event follows. Does nothing if it has ended."""
        self._client_loop.abort(stream, reason)

    def status(self) -> GroupStatus:
        """A snapshot, cheap enough for every scrape."""
        loop = self._client_loop
        return GroupStatus(
            name=self.config.name,
            queued=loop.queued,
            active=loop.active,
            max_active=self.plan.max_active,
            draining=self._draining,
            finished=dict(loop.finished),
            subservers=[subserver.stats for subserver in self.subservers],
            tuning=None if self._tuner is None else self._tuner.status,
        )

    def drain(self, timeout: float | None = None) -> bool:
        """Take no more requests and wait until all have ended; False if that took too long."""
        self._draining = True
        return self._client_loop.wait_idle(timeout)

    def close(self) -> None:
        """End every request with reason `shutdown` and free the models."""
        if self._closed:
            return
        self._draining = self._closed = True
        if self._tuner is not None:
            self._tuner.stop()
        self._client_loop.stop()
        for subserver in self.subservers:
            subserver.join()

    def _free_slots(self) -> int:
        return max(0, self.plan.max_active - self._client_loop.active)

    def _check(self, request: GenerateRequest) -> None:
        if self._draining:
            raise GroupUnavailableError("the server is shutting down")
        if not any(self._client_loop.alive):
            raise GroupUnavailableError("no model is left alive")
        request.sampling.check()
        if not request.prompt_ids:
            raise RequestError("the prompt is empty", param="prompt")
        if min(request.prompt_ids) < 0 or max(request.prompt_ids) >= self.vocabulary.size:
            raise RequestError(f"token ids must be 0 to {self.vocabulary.size - 1}", param="prompt")
        if not all(0 <= token < self.vocabulary.size for token in request.stop_token_ids):
            raise RequestError("stop tokens must be of the vocabulary", param="stop_token_ids")
        if request.max_tokens < 1:
            raise RequestError("max_tokens must be at least 1", param="max_tokens")
        if request.timeout_s is not None and not request.timeout_s > 0:
            raise RequestError("timeout must be positive", param="timeout")
        total = len(request.prompt_ids) + request.max_tokens
        if total > self.config.context:
            raise RequestTooLongError(
                f"prompt ({len(request.prompt_ids)} tokens) and max_tokens ({request.max_tokens}) "
                f"exceed the context of {self.config.context} tokens",
                param="messages"
                if len(request.prompt_ids) >= self.config.context
                else "max_tokens",
            )


def _typed(request: GenerateRequest) -> GenerateRequest:
    """The request with every field of the type it is declared to have.

    Structs don't check that, and a model's loop must not be the first to find, say, numpy integers.
    """
    fields = msgspec.structs.asdict(request)
    try:
        fields["sampling"] = msgspec.structs.astuple(request.sampling)
        return msgspec.convert(fields, GenerateRequest)
    except (TypeError, msgspec.ValidationError) as error:
        raise RequestError(f"a field has a wrong type: {error}") from error
