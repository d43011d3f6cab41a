"""A group: the models that write one response together, behind `submit` and `abort`."""

from __future__ import annotations

import atexit

import msgspec

from trrouters import BaseRouter
from trsched.engines.fetch import fetch_and_check
from trsched.errors import (
    GroupUnavailableError,
    QueueFullError,
    RequestError,
    RequestTooLongError,
)
from trsched.hosts.host import Host, Report
from trsched.hosts.process_host import ProcessHost
from trsched.hosts.thread_host import ThreadHost
from trsched.loops.client_loop import ClientLoop
from trsched.loops.stream import Deliver, Stream, deliver_to_streams
from trsched.models.vocabulary import Vocabulary
from trsched.plan.check import GroupPlan
from trsched.plan.config import GroupConfig
from trsched.request import FinishReason, GenerateRequest
from trsched.shared.counters import GroupStatus
from trsched.tuning.group_tuner import tuner_thread
from trsched.tuning.tuner_thread import POLL_S
from trsched.wire.patient_push import PATIENCE_S


def _say_nothing(line: str) -> None:
    del line


class Group:
    """Subservers, wherever they run, and the client loop.

    `submit` and `abort` may be called from any thread and never block on a model.

    plan: what was checked, not yet started.
    host: the subservers, loaded.
    deliver: gets the events of all streams.
    report: gets lines for people.
    patience_s: a model that takes no message for so long is dead.
    tuner_poll_s: seconds between the tuner's looks at what has happened.
    """

    def __init__(
        self,
        plan: GroupPlan,
        host: Host,
        deliver: Deliver = deliver_to_streams,
        report: Report = _say_nothing,
        *,
        patience_s: float = PATIENCE_S,
        tuner_poll_s: float = POLL_S,
    ) -> None:
        self.config = plan.config
        self.plan = plan
        self.vocabulary: Vocabulary = plan.vocabularies[0]
        self.router: BaseRouter = plan.routers[0]
        self.host = host
        self._draining = False
        self._closed = False
        names = [model.name for model in plan.config.models]
        self._client_loop = ClientLoop(
            host.reports,
            host.inboxes,
            self.router,
            slots=plan.max_active,
            active=host.shared.active,
            deliver=deliver,
            degrade=plan.degrades,
            on_death=lambda index, error: report(f"model {index} {names[index]} died: {error}"),
            on_router_error=lambda index, error: report(
                f"the router of model {index} {names[index]} failed: {error}"
            ),
            patience_s=patience_s,
        )
        self._tuner = tuner_thread(plan, host.shared, host.inboxes, report, tuner_poll_s)
        host.start()
        self._client_loop.start()
        if self._tuner is not None:
            self._tuner.start()
        atexit.register(self.close)  # threads that outlive the interpreter would abort the process

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
        host: type[ProcessHost | ThreadHost] = (
            ProcessHost if plan.config.in_processes else ThreadHost
        )
        return cls(plan, host.open(plan, report), deliver, report)

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
            subservers=list(self.host.shared.stats),
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
        atexit.unregister(self.close)
        if self._tuner is not None:
            self._tuner.stop()
        self._client_loop.stop()
        self.host.join()

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
        self._check_routing(request)
        total = len(request.prompt_ids) + request.max_tokens
        if total > self.config.context:
            raise RequestTooLongError(
                f"prompt ({len(request.prompt_ids)} tokens) and max_tokens ({request.max_tokens}) "
                f"exceed the context of {self.config.context} tokens",
                param="messages"
                if len(request.prompt_ids) >= self.config.context
                else "max_tokens",
            )

    def _check_routing(self, request: GenerateRequest) -> None:
        models = len(self.config.models)
        if request.only is not None and not 0 <= request.only < models:
            raise RequestError(f"only must be a model, 0 to {models - 1}", param="only")
        if request.threshold is None:
            return
        if request.only is not None:
            raise RequestError("only is not for requests with a threshold", param="only")
        setting = self.router.threshold_setting
        if setting is None:
            name = self.config.router.name
            raise RequestError(f"the router {name!r} has no threshold", param="threshold")
        if not setting.allows(request.threshold):
            raise RequestError(
                f"the threshold ({setting.name}) must be from {setting.low:g} to {setting.high:g}",
                param="threshold",
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
