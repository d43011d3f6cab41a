"""From a client's request to its answer: choose an instance, try it, and another if that fails."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import aiohttp
import structlog

from rbalance import NoInstanceError
from trserve.gateway.request.attempt import Attempt
from trserve.gateway.request.attempt_outcome import AttemptFailedError, Progress, Stored
from trserve.gateway.request.decision import decision_headers, decision_note, reason_of
from trserve.gateway.request.flight import Flight, Stop, stopped_error
from trserve.gateway.request.retry_budget import RetryBudget, RetrySettings
from trserve.http.errors import ApiError

if TYPE_CHECKING:
    from rbalance import Balancer, Routed, RouteRequest
    from trserve.gateway.config.config import GatewayConfig
    from trserve.gateway.metrics.gateway_metrics import GatewayMetrics
    from trserve.gateway.pool.balancing import Balancing
    from trserve.gateway.pool.instance import Instance
    from trserve.gateway.pool.pool import Pool
    from trserve.gateway.request.route_requests import RouteRequests
    from trserve.gateway.request.trip import Trip

_log = structlog.get_logger("trserve.gateway")

_PROGRESS_EVERY = 16  # tokens: so often a stream's instance is told to have less left to write
_SAME_AGAIN = ("broken", "empty")  # a kept-alive connection may have died, its server may not


class Dispatcher:
    """Everything that `fly` needs; `configure` comes first."""

    def __init__(
        self,
        pool: Pool,
        requests: RouteRequests,
        balancer: Balancer,
        balancing: Balancing,
        session: aiohttp.ClientSession,
        budget: RetryBudget,
        metrics: GatewayMetrics,
    ) -> None:
        self._pool = pool
        self._requests = requests
        self._balancer = balancer
        self._balancing = balancing
        self._state = balancing.state
        self._session = session
        self._budget = budget
        self._metrics = metrics
        self._keys = itertools.count()
        self._loop = asyncio.get_running_loop()

    def configure(self, config: GatewayConfig) -> None:
        """Try so often, and so long, from now on."""
        self._attempts = config.retries.attempts
        share = config.retries.budget
        self._budget.change(RetrySettings(share) if share else RetrySettings(0.0, 0.0, 0.0))
        self._timeout = aiohttp.ClientTimeout(sock_connect=config.timeouts.connect_s)

    async def fly(self, trip: Trip) -> None:
        """Answer it. Raises ApiError where nothing has been sent to the client yet."""
        self._budget.requested(self._loop.time())
        while True:
            request = self._requests.of(trip.ask, next(self._keys), trip.not_on)
            try:
                if await self._once(trip, request):
                    return
            except AttemptFailedError as error:
                trip.failed, trip.failed_on = error, trip.instance
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
        trip.undecided()
        with trip.span.decide() as deciding:
            routed = await self._balancer.route(request)
            trip.decided_at = self._loop.time()
            self._metrics.decision_took(trip.decided_at - asked_at)
            instance = self._pool.find(routed.instance)
            # removed since the decision; its number may have a new owner already
            if instance is None or request.key not in self._state.in_flight:
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
        trip.terms, trip.weights = routed.terms, request.weights or self._balancing.weights
        told = decision_headers(instance, routed, trip)
        note = decision_note(instance, routed, trip) if trip.ask.options.explain else b""
        attempt = Attempt(instance.name, trip.reply, trip.flight, progress, told, note)
        headers = {**trip.headers, **instance.headers}
        try:
            with trip.span.upstream(instance.name, instance.spec.model, headers) as trying:
                body = instance.body(trip.ask.fields)
                url = instance.url + trip.path
                await attempt.run(self._session, url, body, headers, self._timeout)
                trying.answered(progress.status)
        except AttemptFailedError as error:
            if error.at_fault:
                self._fault(instance, error.reason)
            else:  # it is busy or has no room, but it answers
                self._answers(instance)
            raise
        except asyncio.CancelledError:
            if self._too_slow(trip):
                self._fault(instance, "timeout")
            elif trip.first_at is not None:
                self._answers(instance)
            else:
                instance.breaker.gave_up()
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
        self._answers(instance)

    def _wrote(self, trip: Trip, request: RouteRequest, tokens: int) -> None:
        if not tokens:  # comments, which servers send while a request waits
            return
        if trip.first_at is None or tokens - trip.told >= _PROGRESS_EVERY:
            now = self._loop.time()
            if trip.first_at is None:
                trip.first_at = now
                assert trip.instance is not None
                if trip.instance.breaker.state(now) != "closed":  # else its end tells
                    self._answers(trip.instance)
            trip.told = tokens
            self._state.progress(request.key, tokens, now)

    def _landed(self, trip: Trip, request: RouteRequest) -> None:
        """Take back exactly what the decision added, however the try ended."""
        now = self._loop.time()
        if trip.progress is not None and trip.first_at is not None:
            self._state.progress(request.key, trip.progress.tokens, now)
        flight = self._state.release(request.key, now)
        if flight is not None and flight.written > 1 and trip.first_at is not None:
            stalled = 0.0 if trip.progress is None else trip.progress.stalled_s
            seconds = now - trip.first_at - stalled
            self._balancing.policy.observe(flight.instance, flight.written - 1, seconds, now)

    def _too_slow(self, trip: Trip) -> bool:
        """That its request was stopped tells against the instance.

        Not where it is no stream, which may just be long; nor at its deadline, unless the instance
        had half of the time and has not begun.
        """
        flight = trip.flight
        if not flight.stream or flight.stopped != "deadline":
            return flight.stream and flight.stopped == "timeout"
        waited = self._loop.time() - flight.touched
        return flight.phase == "first byte" and waited > (flight.deadline - flight.started) / 2

    def _answers(self, instance: Instance) -> None:
        """It has shown that it lives."""
        now = self._loop.time()
        closed = instance.breaker.state(now) == "closed"
        instance.breaker.succeeded(now)
        if not closed:
            self._pool.judge(instance)

    def _fault(self, instance: Instance, why: str) -> None:
        opened = instance.breaker.opened
        instance.breaker.failed(self._loop.time())
        if instance.breaker.opened != opened:
            self._metrics.breaker_opened(instance.name)
            _log.warning("instance left alone", instance=instance.name, why=why)
        self._pool.judge(instance)

    def _again(self, trip: Trip, error: AttemptFailedError) -> bool:
        """Whether another try is in order, which is then counted."""
        assert trip.instance is not None
        narrow = error.reason == "context"
        if narrow and not self._requests.wider(trip.ask, trip.instance):
            return False
        if trip.tries >= self._attempts or not self._budget.spend(self._loop.time()):
            return False
        trip.not_on += (trip.instance.number,)
        if narrow:  # nor on any with as little room
            trip.not_on += tuple(
                each.number
                for each in self._pool.instances
                if each.context <= trip.instance.context
            )
        self._metrics.retried(error.reason)
        _log.warning(
            "tried elsewhere",
            request_id=trip.flight.request_id,
            instance=trip.instance.name,
            why=error.reason,
        )
        return True

    def _same_again(self, trip: Trip) -> bool:
        """Nobody else may have it: the one that broke off may, once more after each try."""
        if trip.failed is None or trip.failed.reason not in _SAME_AGAIN or not trip.not_on:
            return False
        if trip.retried_same == trip.tries:
            return False
        trip.retried_same = trip.tries
        trip.not_on = ()
        return True

    async def _stopped(self, trip: Trip, why: Stop) -> bool:
        """Whether it is to be tried elsewhere; else it has been ended."""
        error = stopped_error(why, None if trip.instance is None else trip.instance.name)
        if trip.reply.begun:
            if trip.progress is not None:
                trip.progress.broken = why
            trip.flight.over()
            await trip.reply.break_off(error)
            return False
        if why in ("instance removed", "instance down"):
            return True
        if why == "timeout":
            trip.failed, trip.failed_on = AttemptFailedError(why, error), trip.instance
            if self._again(trip, trip.failed):
                return True
        raise error

    async def _nobody(self, trip: Trip, error: NoInstanceError) -> None:
        if trip.failed is not None:
            trip.instance = trip.failed_on  # whose answer it is
            await self._last_answer(trip, trip.failed.answer)
            return
        raise self._requests.refusal(trip.ask, error)

    async def _last_answer(self, trip: Trip, answer: ApiError | Stored) -> None:
        if isinstance(answer, ApiError):
            raise answer
        length = (b"content-length", str(len(answer.body)).encode())
        await trip.reply.start(answer.status, [*answer.headers, length])
        await trip.reply.write(answer.body, more=False)
