"""A request's whole way: admit, decide, attempt, again elsewhere if that fails, end."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import aiohttp
import structlog

from rbalance import NoInstanceError
from trserve.gateway.pool.dispatch_account import DispatchAccount
from trserve.gateway.request.attempt import Attempt
from trserve.gateway.request.attempted import Attempted, AttemptFailedError, RoundOutcome, Tries
from trserve.gateway.request.decision import Decider, Decision
from trserve.gateway.request.ended_request import ended_request, record_end, record_refusal
from trserve.gateway.request.interruptible_task import InterruptibleTask
from trserve.gateway.request.stop_reasons import CLIENT_GONE, stopped_error, stopped_outcome
from trserve.gateway.upstream.stream_progress import StreamProgress
from trserve.http.client_disconnect import call_when_client_leaves
from trserve.http.errors import ApiError

if TYPE_CHECKING:
    from starlette.types import Receive

    from trserve.gateway.access.key_lookup import Caller
    from trserve.gateway.config.deployment import GatewayDeployment
    from trserve.gateway.metrics.gateway_metrics import GatewayMetrics
    from trserve.gateway.metrics.tracing import RequestSpan
    from trserve.gateway.pool.balancing import Balancing
    from trserve.gateway.pool.instance import Instance
    from trserve.gateway.pool.pool import Pool
    from trserve.gateway.request.client_response import ClientResponse
    from trserve.gateway.request.in_flight_requests import InFlightRequests
    from trserve.gateway.request.received_request import ReceivedRequest
    from trserve.gateway.request.retry_decision import Retrier
    from trserve.gateway.request.route_requests import RouteRequests
    from trserve.gateway.upstream.connection_release import ConnectionRelease
    from trserve.gateway.upstream.stored_answer import StoredAnswer

_log = structlog.get_logger("trserve.gateway")

_CLIENT_LEFT = 499  # as nginx has it, for logs


@dataclass(frozen=True, slots=True)
class _Running:
    """What there is of a request from its admission to its end."""

    received: ReceivedRequest
    task: InterruptibleTask
    response: ClientResponse
    span: RequestSpan


class RequestHandler:
    """One for all requests."""

    def __init__(
        self,
        deployment: GatewayDeployment,
        pool: Pool,
        requests: RouteRequests,
        in_flight: InFlightRequests,
        decider: Decider,
        retrier: Retrier,
        balancing: Balancing,
        session: aiohttp.ClientSession,
        connections: ConnectionRelease,
        metrics: GatewayMetrics,
    ) -> None:
        self._pool = pool
        self._requests = requests
        self._in_flight = in_flight
        self._decider = decider
        self._retrier = retrier
        self._balancing = balancing
        self._session = session
        self._connections = connections
        self._metrics = metrics
        self._keys = itertools.count()
        self._loop = asyncio.get_running_loop()
        self.configure(deployment)

    def configure(self, deployment: GatewayDeployment) -> None:
        """Try so often, and connect for so long, from now on."""
        config = deployment.gateway
        self._retrier.configure(config.retries)
        self._timeout = aiohttp.ClientTimeout(sock_connect=config.timeouts.connect_s)
        self._access_log = deployment.server.access_log

    async def handle(
        self,
        received: ReceivedRequest,
        caller: Caller | None,
        receive: Receive,
        response: ClientResponse,
        span: RequestSpan,
    ) -> None:
        """Answer it. Raises ApiError where nothing has been sent to the client yet.

        caller: whose key it came with. receive: the client's connection, which may end.
        """
        body, request = received.body, None
        task = InterruptibleTask(received.received_at, received.deadline, stream=body.stream)
        tries, status = Tries(), 500

        def tokens_used() -> int:
            return tries.tokens(body.prompt_tokens)

        try:
            with self._in_flight.admitted(task, body, caller, tokens_used):
                request = _Running(self._requests.settled(received), task, response, span)
                self._retrier.requested()
                watch = call_when_client_leaves(receive, lambda: task.stop("client left"))
                try:
                    again: Tries | None = tries
                    while again is not None:
                        tries = again.after(await self._decide_and_attempt(request, again))
                        again = self._retrier.again(request.received, tries)
                    await self._tell_the_rest(request, tries)
                    status = _CLIENT_LEFT if task.stopped in CLIENT_GONE else response.status
                except ApiError as error:
                    status = error.status_code
                    raise
                finally:
                    watch.cancel()
                    self._record_end(request, tries, status)
                    await task.settle()
        except ApiError as error:
            if request is None:  # it did not come in
                record_refusal(received.id, received.path, error, span, access_log=self._access_log)
            raise

    async def _decide_and_attempt(self, request: _Running, tries: Tries) -> Attempted:
        """One round, however it ends; what the balancer counted for it is taken back."""
        task = request.task
        account = DispatchAccount(next(self._keys), self._balancing, self._loop.time)
        progress = StreamProgress(account.wrote)
        decision, sent = None, False

        def over(
            outcome: RoundOutcome, reason: str = "", answer: ApiError | StoredAnswer | None = None
        ) -> Attempted:
            counted = (progress.prompt_tokens, progress.tokens, account.first_at)
            return Attempted(outcome, decision, sent, reason, answer, progress.broken, *counted)

        try:
            task.enter("waiting", self._loop.time())
            decision = await self._decider.decide(
                request.received.body, account, request.span, tries.not_on, tries.failed_for
            )
            if decision is None:
                return over(RoundOutcome.NOT_TRIED)
            async with decision.instance.turn(task):
                if not decision.instance.breaker.allows(self._loop.time()):
                    return over(RoundOutcome.NOT_TRIED)
                sent = True
                await self._attempt(request, decision, account, progress)
                return over(RoundOutcome.ANSWERED, answer=progress.last_word)
        except AttemptFailedError as error:
            return over(error.outcome, error.reason, error.answer)
        except NoInstanceError as error:
            if tries.failed is None:
                refusal = self._requests.refusal(request.received.body, error)
                return over(RoundOutcome.NOBODY, answer=refusal)
            decision = tries.failed.decision  # whose answer it is
            return over(RoundOutcome.NOBODY, answer=tries.failed.answer)
        except asyncio.CancelledError:
            if (why := task.interrupted()) is None:
                raise
            name = None if decision is None else decision.instance.name
            answer = None if why in CLIENT_GONE else stopped_error(why, name)
            return over(stopped_outcome(why, begun=request.response.begun), why, answer)
        finally:
            account.close(progress.tokens, progress.stalled_s)

    async def _attempt(
        self,
        request: _Running,
        decision: Decision,
        account: DispatchAccount,
        progress: StreamProgress,
    ) -> None:
        """One try; what it says of its instance is told to the pool. Raises AttemptFailedError."""
        received, task, instance = request.received, request.task, decision.instance
        self._metrics.decided(instance.name, instance.spec.model)
        account.on_first_token = lambda: self._pool.began(instance)
        note = decision.note if received.body.options.explain else b""
        attempt = Attempt(instance.name, request.response, task, progress, decision.headers, note)
        headers = {**received.headers, **instance.headers}
        try:
            with request.span.upstream(instance.name, instance.spec.model, headers) as trying:
                url, body = instance.url + received.path, instance.body(received.body.fields)
                await attempt.run(
                    self._session, self._connections, url, body, headers, self._timeout
                )
                trying.answered(progress.status)
        except AttemptFailedError as error:
            if error.at_fault:
                self._failed(instance, error.reason)
            else:  # it is busy or has no room, but it answers
                self._pool.answered(instance)
            raise
        except asyncio.CancelledError:
            if task.instance_too_slow(self._loop.time()):
                self._failed(instance, "timeout")
            elif account.first_at is not None:
                self._pool.answered(instance)
            else:
                instance.breaker.gave_up()
            raise
        if not progress.broken:
            self._pool.answered(instance)
            return
        self._failed(instance, progress.broken)
        _log.warning(
            "stream broken", request_id=received.id, instance=instance.name, why=progress.broken
        )

    def _failed(self, instance: Instance, why: str) -> None:
        if self._pool.failed(instance, why):
            self._metrics.breaker_opened(instance.name)

    async def _tell_the_rest(self, request: _Running, tries: Tries) -> None:
        """Where no instance's answer was whole. Raises ApiError: nothing has been sent yet."""
        task, response = request.task, request.response
        answer = None if tries.last is None else tries.last.answer
        if response.begun:
            task.over()
            if isinstance(answer, ApiError):
                await response.break_off(answer)
        elif isinstance(answer, ApiError):
            raise answer
        elif answer is not None:
            task.enter("client", self._loop.time())
            try:
                await response.whole(answer)
            except asyncio.CancelledError:
                if task.interrupted() is None:
                    raise

    def _record_end(self, request: _Running, tries: Tries, status: int) -> None:
        ended = ended_request(request.received, tries, status, self._loop.time())
        log = self._access_log
        record_end(ended, request.span, self._metrics, self._balancing, access_log=log)
