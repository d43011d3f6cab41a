"""From a client's request to its answer: choose an instance, try it, and another if that fails."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import aiohttp
import structlog

from rbalance import NoInstanceError
from trserve.errors import ApiError
from trserve.gateway.attempt import Attempt, AttemptFailedError, Progress, Stored
from trserve.gateway.decision import decision_headers, decision_note, reason_of
from trserve.gateway.flight import Flight, Stop, stopped_error

if TYPE_CHECKING:
    from rbalance import Balancer, InstanceState, Routed, RouteRequest, Terms
    from rbalance.policies.policy import Policy
    from trserve.gateway.ask import Ask
    from trserve.gateway.gateway_metrics import GatewayMetrics
    from trserve.gateway.instance import Instance
    from trserve.gateway.pool import Pool
    from trserve.gateway.reply import Reply
    from trserve.gateway.retry_budget import RetryBudget
    from trserve.gateway.route_requests import RouteRequests
    from trserve.gateway.tracing import RequestSpan

_log = structlog.get_logger("trserve.gateway")

_PROGRESS_EVERY = 16  # tokens: so often a stream's instance is told to have less left to write
_SAME_AGAIN = ("broken", "empty")  # a kept-alive connection may have died, its server may not


@dataclass(slots=True)
class Trip:
    """One request through the gateway, for logs and metrics. not_on: instances that failed it."""

    ask: Ask
    path: str
    headers: dict[str, str]
    flight: Flight
    reply: Reply
    span: RequestSpan
    tries: int = 0
    not_on: tuple[int, ...] = ()
    failed: AttemptFailedError | None = None
    instance: Instance | None = None
    progress: Progress | None = None
    first_at: float | None = None
    terms: Terms | None = None
    decided_at: float = 0.0

    def decided_s(self, now: float) -> float:
        """Seconds since the last decision."""
        return now - self.decided_at


class Dispatcher:
    """Everything that `fly` needs; attempts and timeouts may be changed between requests."""

    def __init__(
        self,
        pool: Pool,
        requests: RouteRequests,
        balancer: Balancer,
        state: InstanceState,
        policy: Policy,
        session: aiohttp.ClientSession,
        budget: RetryBudget,
        metrics: GatewayMetrics,
        attempts: int,
    ) -> None:
        self.pool = pool
        self.attempts = attempts
        self._requests = requests
        self._balancer = balancer
        self._state = state
        self._policy = policy
        self._session = session
        self._budget = budget
        self._metrics = metrics
        self._keys = itertools.count()
        self._loop = asyncio.get_running_loop()

    async def fly(self, trip: Trip) -> None:
        """Answer it. Raises ApiError where nothing has been sent to the client yet."""
        self._budget.requested(self._loop.time())
        while True:
            request = self._requests.of(trip.ask, next(self._keys), trip.not_on)
            try:
                if await self._once(trip, request):
                    return
            except AttemptFailedError as error:
                trip.failed = error
                if not self._again(trip, error):
                    await self._last_answer(trip, error.answer)
                    return
            except NoInstanceError as error:
                if not self._same_again(trip):
                    await self._nobody(trip, error)
                    return
            except asyncio.CancelledError:
                if (why := trip.flight.interrupted()) is None:
                    raise
                if why in ("client left", "client stalled") or not await self._stopped(trip, why):
                    return
            finally:
                self._landed(trip, request)

    async def _once(self, trip: Trip, request: RouteRequest) -> bool:
        """Whether it was answered; False: to be decided anew, nothing has been tried."""
        flight = trip.flight
        asked_at = self._loop.time()
        flight.enter("waiting", asked_at)
        trip.instance = trip.progress = trip.first_at = trip.terms = None
        with trip.span.decide() as deciding:
            routed = await self._balancer.route(request)
            trip.decided_at = self._loop.time()
            self._metrics.decision_took(trip.decided_at - asked_at)
            instance = self.pool.find(routed.instance)
            if instance is None:  # removed since the decision
                return False
            deciding.decided(instance.name, instance.spec.model, reason_of(routed, trip))
        trip.instance = instance
        async with self._turn(instance, flight):
            if not instance.breaker.allows(self._loop.time()):
                trip.not_on += (instance.number,)
                return False
            trip.tries += 1
            self._metrics.decided(instance.name, instance.spec.model)
            await self._attempt(trip, request, instance, routed)
        return True

    @asynccontextmanager
    async def _turn(self, instance: Instance, flight: Flight) -> AsyncIterator[None]:
        """Until the instance takes one more, and while it has this one."""
        instance.flights.add(flight)
        try:
            if instance.permits is None:
                yield
                return
            async with instance.permits:
                yield
        finally:
            instance.landed(flight)

    async def _attempt(
        self, trip: Trip, request: RouteRequest, instance: Instance, routed: Routed
    ) -> None:
        trip.progress = progress = Progress(lambda tokens: self._wrote(trip, request, tokens))
        trip.terms = routed.terms
        told = decision_headers(instance, routed, trip)
        note = decision_note(instance, routed, trip) if trip.ask.options.explain else b""
        attempt = Attempt(instance.name, trip.reply, trip.flight, progress, told, note)
        began = self._loop.time()
        headers = {**trip.headers, **instance.headers}
        try:
            with trip.span.upstream(instance.name, instance.spec.model, headers) as trying:
                body = instance.body(trip.ask.fields)
                await attempt.run(self._session, instance.url + trip.path, body, headers)
                trying.answered(progress.status)
        except AttemptFailedError as error:
            if error.at_fault:
                self._fault(instance, error.reason)
            raise
        except asyncio.CancelledError:
            if trip.flight.stopped == "timeout":
                self._fault(instance, "timeout")
            raise
        if progress.broken:
            self._fault(instance, progress.broken)
            _log.warning(
                "stream broken",
                request_id=trip.flight.request_id,
                instance=instance.name,
                why=progress.broken,
            )
            return
        if instance.breaker.state(began) != "closed":
            instance.breaker.succeeded(self._loop.time())
            self.pool.judge(instance)
        else:
            instance.breaker.succeeded(began)

    def _wrote(self, trip: Trip, request: RouteRequest, tokens: int) -> None:
        if not tokens:  # comments, which servers send while a request waits
            return
        if trip.first_at is None or tokens % _PROGRESS_EVERY == 0:
            now = self._loop.time()
            if trip.first_at is None:
                trip.first_at = now
            self._state.progress(request.key, tokens, now)

    def _landed(self, trip: Trip, request: RouteRequest) -> None:
        """Take back exactly what the decision added, however the try ended."""
        now = self._loop.time()
        if trip.progress is not None and trip.first_at is not None:
            self._state.progress(request.key, trip.progress.tokens, now)
        flight = self._state.release(request.key, now)
        if flight is not None and flight.written > 1 and trip.first_at is not None:
            self._policy.observe(flight.instance, flight.written - 1, now - trip.first_at, now)

    def _fault(self, instance: Instance, why: str) -> None:
        opened = instance.breaker.opened
        instance.breaker.failed(self._loop.time())
        if instance.breaker.opened != opened:
            self._metrics.breaker_opened(instance.name)
            _log.warning("instance left alone", instance=instance.name, why=why)
        self.pool.judge(instance)

    def _again(self, trip: Trip, error: AttemptFailedError) -> bool:
        """Whether another try is in order, which is then counted."""
        if error.reason == "context" and not self._requests.wider(trip.ask, trip.instance):
            return False
        if trip.tries >= self.attempts or not self._budget.spend(self._loop.time()):
            return False
        assert trip.instance is not None
        trip.not_on += (trip.instance.number,)
        self._retried(trip, error.reason)
        return True

    def _same_again(self, trip: Trip) -> bool:
        """Nobody else may have it: the one that broke off may, once more."""
        if trip.failed is None or trip.failed.reason not in _SAME_AGAIN or not trip.not_on:
            return False
        trip.not_on = ()
        return True

    async def _stopped(self, trip: Trip, why: Stop) -> bool:
        """Whether it is to be tried elsewhere; else it has been ended."""
        error = stopped_error(why, None if trip.instance is None else trip.instance.name)
        if trip.reply.begun:
            await trip.reply.break_off(error)
            return False
        if why == "instance removed":
            return True
        if why == "timeout":
            trip.failed = AttemptFailedError(why, error)
            if self._again(trip, trip.failed):
                return True
        raise error

    async def _nobody(self, trip: Trip, error: NoInstanceError) -> None:
        if trip.failed is not None:
            await self._last_answer(trip, trip.failed.answer)
            return
        raise self._requests.refusal(trip.ask, error)

    async def _last_answer(self, trip: Trip, answer: ApiError | Stored) -> None:
        if isinstance(answer, ApiError):
            raise answer
        length = (b"content-length", str(len(answer.body)).encode())
        await trip.reply.start(answer.status, [*answer.headers, length])
        await trip.reply.write(answer.body, more=False)

    def _retried(self, trip: Trip, reason: str) -> None:
        self._metrics.retried(reason)
        _log.warning(
            "tried elsewhere",
            request_id=trip.flight.request_id,
            instance=trip.instance.name if trip.instance else None,
            why=reason,
        )
