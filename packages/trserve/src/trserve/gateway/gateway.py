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
from trserve.gateway.access.client_keys import ClientKeys
from trserve.gateway.metrics.gateway_metrics import GatewayMetrics
from trserve.gateway.metrics.instance_rows import instance_rows
from trserve.gateway.metrics.tracing import Tracing
from trserve.gateway.pool.balancing import Balancing
from trserve.gateway.pool.health_checker import HealthChecker
from trserve.gateway.pool.pool import Pool
from trserve.gateway.pool.telemetry_scraper import TelemetryScraper
from trserve.gateway.request.dispatcher import Dispatcher
from trserve.gateway.request.retry_budget import RetryBudget
from trserve.gateway.request.route_requests import RouteRequests
from trserve.gateway.request.watchdog import Watchdog
from trserve.http.errors import ApiError

if TYPE_CHECKING:
    from rbalance import RouteRequest
    from rbalance.decide.explain import Explanation
    from trserve.gateway.config.config import InstanceSpec
    from trserve.gateway.config.deployment import GatewayDeployment
    from trserve.gateway.pool.instance import Instance
    from trserve.gateway.pool.local_groups import GroupServer
    from trserve.gateway.pool.telemetry_text import Reading
    from trserve.gateway.request.trip import Trip

_log = structlog.get_logger("trserve.gateway")

_KEEP_ALIVE_S = 4.0  # uvicorn's servers, most of those there are, hang up after 5


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
        self.pool = Pool(config, balancing, groups)
        self.requests = RouteRequests(config, self.pool)
        self.watchdog = Watchdog(config.timeouts)
        self.metrics = GatewayMetrics(lambda: instance_rows(self), self.stats)
        self.tracing = tracing
        self.keys = ClientKeys.of(deployment.server)
        self.draining = False
        self._empty = asyncio.Event()
        self._explaining = asyncio.Lock()
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
        session = await enter(
            aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEP_ALIVE_S),
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
            self.balancing,
            session,
            RetryBudget(),
            self.metrics,
        )
        self.dispatcher.configure(config)
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
            instance.telemetry, instance.telemetry_failure = reading.kind, ""
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
        self._unwatch(instance)
        self.pool.remove(instance)
        _log.info("instance removed", name=instance.name)

    def retire(self, instance: Instance) -> None:
        """Send it nothing more, and forget it once it has finished what it has."""
        self._unwatch(instance)
        self.pool.retire(instance)
        _log.info("instance retired", name=instance.name, in_flight=len(instance.flights))

    def replace(self, instance: Instance) -> None:
        """The same, and another may take its name at once."""
        self.pool.release_name(instance)
        self.retire(instance)

    def _unwatch(self, instance: Instance) -> None:
        if self.pool.named(instance.name) in (instance, None):
            self._scraper.unwatch(instance.name)
            self._health.unwatch(instance.name)

    def configure(self, deployment: GatewayDeployment) -> None:
        """Use what may change at run time of a configuration; instances are apart."""
        self.deployment = deployment
        config = deployment.gateway
        self.pool.config = config
        self.requests.configure(config)
        self.watchdog.timeouts = config.timeouts
        self.dispatcher.configure(config)
        self.balancing.configure(config)

    async def explain(self, request: RouteRequest) -> Explanation:
        """See Balancer.explain; one at a time, or many would keep the predictor from decisions."""
        async with self._explaining:
            return await self.balancer.explain(request)

    @contextmanager
    def admitted(self, trip: Trip, scope: Scope) -> Iterator[None]:
        """While a request is under way. Raises ApiError (429, 503): not now."""
        if self.draining:
            message = "The gateway is shutting down; try again later."
            headers = {"retry-after": "5", "connection": "close"}
            raise ApiError(503, message, code="shutdown", headers=headers)
        flights = self.watchdog.flights
        if len(flights) >= self.deployment.gateway.max_waiting:
            message = f"{len(flights)} requests are under way, as many as may be."
            raise ApiError(429, message, code="queue_full", headers={"retry-after": "1"})
        with self.keys.admitted(scope, trip.ask, lambda: trip.tokens):
            flights.add(trip.flight)
            try:
                yield
            finally:
                flights.discard(trip.flight)
                self._check_empty()

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
