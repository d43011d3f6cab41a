"""A running gateway: everything that serves requests, put together, and taken apart again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from typing import TYPE_CHECKING, Self

import aiohttp
import structlog
from starlette.types import Scope

from rbalance import AdaptiveSizing, Balancer, BalancerStats, NaturalSizing
from trserve.errors import ApiError
from trserve.gateway.balancing import Balancing
from trserve.gateway.client_keys import ClientKeys
from trserve.gateway.dispatcher import Dispatcher, Trip
from trserve.gateway.gateway_metrics import GatewayMetrics
from trserve.gateway.health_checker import HealthChecker
from trserve.gateway.instance_collector import InstanceRow
from trserve.gateway.pool import Pool
from trserve.gateway.regret import regret_estimate
from trserve.gateway.retry_budget import RetryBudget, RetrySettings
from trserve.gateway.route_requests import RouteRequests
from trserve.gateway.telemetry_scraper import TelemetryScraper
from trserve.gateway.tracing import Tracing
from trserve.gateway.watchdog import Watchdog

if TYPE_CHECKING:
    from trserve.gateway.config import InstanceSpec
    from trserve.gateway.deployment import GatewayDeployment
    from trserve.gateway.instance import Instance
    from trserve.gateway.local_groups import GroupServer
    from trserve.gateway.telemetry_text import Reading

_log = structlog.get_logger("trserve.gateway")


class Gateway:
    """Use as `async with`, inside the event loop that serves.

    groups: the local ones, which run, by name.
    """

    def __init__(
        self,
        deployment: GatewayDeployment,
        balancing: Balancing,
        groups: dict[str, GroupServer],
        tracing: Tracing,
    ) -> None:
        config = deployment.gateway
        self.deployment = deployment
        self.created = int(time.time())
        self.balancing = balancing
        self.state = balancing.state
        self.stats = BalancerStats()
        self.pool = Pool(config, self.state, groups, balancing.place)
        self.requests = RouteRequests(config, self.pool)
        self.watchdog = Watchdog(config.timeouts)
        self.metrics = GatewayMetrics(self.rows, self.stats)
        self.tracing = tracing
        self.keys = ClientKeys.of(deployment.server)
        self.draining = False
        self._empty = asyncio.Event()
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        try:
            await self._open()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def _open(self) -> None:
        config, enter = self.deployment.gateway, self._stack.enter_async_context
        limits = aiohttp.ClientTimeout(total=None, sock_connect=config.timeouts.connect_s)
        session = await enter(
            aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=30),
                timeout=limits,
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        )
        self.balancer = await enter(
            Balancer(
                self.state,
                self.balancing.policy,
                self.balancing.foresight(self.stats, self.metrics),
                self.stats,
                NaturalSizing() if config.batching == "natural" else AdaptiveSizing(),
            )
        )
        self.dispatcher = Dispatcher(
            self.pool,
            self.requests,
            self.balancer,
            self.state,
            self.balancing.policy,
            session,
            RetryBudget(RetrySettings(share=config.retries.budget)),
            self.metrics,
            config.retries.attempts,
        )
        checks = config.checks
        self._scraper = TelemetryScraper(session, checks.telemetry_s, checks.telemetry_timeout_s)
        self._health = HealthChecker(session, checks.health_s, checks.health_timeout_s)
        self._stack.push_async_callback(self._scraper.close)
        self._stack.push_async_callback(self._health.close)
        watching = asyncio.create_task(self.watchdog.run())
        self._stack.callback(watching.cancel)
        for at, spec in enumerate(config.instances):
            self.add(spec, f"instances[{at}]")

    async def __aexit__(self, *error: object) -> None:
        await self._stack.aclose()

    def add(self, spec: InstanceSpec, field: str) -> Instance:
        """Open an instance and watch it. Raises ConfigError naming `field`'s part."""
        instance = self.pool.add(spec, field)

        def on_reading(reading: Reading) -> None:
            now = asyncio.get_running_loop().time()
            self.state.report(instance.number, reading.telemetry, now)

        def on_failure(why: str) -> None:
            instance.telemetry_failure = why
            self.state.report_failed(instance.number)

        if spec.metrics_path is not None:
            url = instance.url + spec.metrics_path
            self._scraper.watch(spec.name, url, on_reading, on_failure, instance.headers)
        self._health.watch(
            spec.name,
            instance.url,
            lambda healthy, why: self.pool.checked(instance, healthy, why),
            spec.health_path,
            instance.headers,
        )
        _log.info("instance", name=spec.name, model=spec.model, url=instance.url)
        return instance

    def remove(self, instance: Instance) -> None:
        """Forget it at once; see Pool.remove."""
        self._scraper.unwatch(instance.name)
        self._health.unwatch(instance.name)
        self.pool.remove(instance)
        _log.info("instance removed", name=instance.name)

    def retire(self, instance: Instance) -> None:
        """Send it nothing more, and forget it once it has finished what it has."""
        instance.on_empty = lambda: self.remove(instance)
        self.pool.drain(instance)

    def configure(self, deployment: GatewayDeployment) -> None:
        """Use what may change at run time of a configuration; instances are apart."""
        self.deployment = deployment
        config = deployment.gateway
        self.pool.config = config
        self.requests.configure(config)
        self.watchdog.timeouts = config.timeouts
        self.dispatcher.attempts = config.retries.attempts
        self.balancing.configure(config)

    @contextmanager
    def admitted(self, trip: Trip, scope: Scope) -> Iterator[None]:
        """While a request is under way. Raises ApiError (429, 503): not now."""
        if self.draining:
            message = "The gateway is shutting down; try again later."
            raise ApiError(503, message, code="shutdown", headers={"retry-after": "5"})
        flights = self.watchdog.flights
        if len(flights) >= self.deployment.gateway.max_waiting:
            message = f"{len(flights)} requests are under way, as many as may be."
            raise ApiError(429, message, code="queue_full", headers={"retry-after": "1"})
        with self.keys.admitted(scope, trip):
            flights.add(trip.flight)
            try:
                yield
            finally:
                flights.discard(trip.flight)
                self._check_empty()

    def ended(self, trip: Trip) -> None:
        """Count and log a request that has got its answer, or won't."""
        now = asyncio.get_running_loop().time()
        seconds = now - trip.flight.started
        if trip.reply.begun:
            model = None if trip.instance is None else trip.instance.spec.model
            trip.span.answered(trip.reply.status, model)
        if trip.progress is not None:
            trip.span.used(trip.progress.prompt_tokens, trip.progress.tokens)
        self.balancing.ended(seconds, now)
        instance = "" if trip.instance is None else trip.instance.name
        tokens = 0 if trip.progress is None else trip.progress.tokens
        first = None if trip.first_at is None else trip.first_at - trip.flight.started
        self.metrics.finished(instance, tokens, seconds, first)
        weights = trip.ask.weights or self.balancing.weights
        if trip.terms is not None and weights is not None and trip.reply.status == 200:
            self.metrics.regretted(regret_estimate(trip.terms, weights, trip.decided_s(now)))
        if self.deployment.server.access_log:
            _log.info(
                "request finished",
                request_id=trip.flight.request_id,
                path=trip.path,
                asked=trip.ask.model,
                instance=instance,
                model="" if trip.instance is None else trip.instance.spec.model,
                status=trip.reply.status,
                tries=trip.tries,
                completion_tokens=tokens,
                ttft_s=None if first is None else round(first, 4),
                seconds=round(seconds, 4),
                predicted_s=None if trip.terms is None else round(trip.terms.seconds, 4),
            )

    def rows(self) -> list[InstanceRow]:
        """The instances as they are, for metrics."""
        now = asyncio.get_running_loop().time()
        self.state.refresh(now)  # decisions do, but there may be none for long
        view, age = self.state.view, self.state.telemetry.age(now)
        return [
            InstanceRow(
                instance=each.name,
                model=each.spec.model,
                running=int(view.running[each.number]),
                waiting=int(view.waiting[each.number]),
                pending_tokens=float(view.pending_decode[each.number]),
                up=bool(view.healthy[each.number]),
                draining=each.draining,
                telemetry_age=float(age[each.number]),
                breaker=each.breaker.state(now),
            )
            for each in self.pool.instances
        ]

    async def drain(self, limit_s: float) -> bool:
        """Take no more requests and wait for those under way; whether all ended in time."""
        self.draining = True
        self._check_empty()
        try:
            async with asyncio.timeout(limit_s):
                await self._empty.wait()
        except TimeoutError:
            return False
        return True

    def _check_empty(self) -> None:
        if self.draining and not self.watchdog.flights:
            self._empty.set()

    def stop(self) -> None:
        """End all requests under way."""
        for flight in list(self.watchdog.flights):
            flight.stop("shutdown")
