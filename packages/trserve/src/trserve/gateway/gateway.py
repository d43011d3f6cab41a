"""A running gateway: everything that serves requests, put together, and taken apart again."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Self

import aiohttp
import structlog

from rbalance import AdaptiveSizing, Balancer, BalancerStats, NaturalSizing
from trserve.gateway.access.key_lookup import ClientKeys
from trserve.gateway.metrics.gateway_metrics import GatewayMetrics
from trserve.gateway.metrics.instance_rows import instance_rows
from trserve.gateway.metrics.tracing import Tracing
from trserve.gateway.pool.balancing import Balancing
from trserve.gateway.pool.health_checker import HealthChecker
from trserve.gateway.pool.pool import Pool
from trserve.gateway.pool.telemetry_scraper import TelemetryScraper
from trserve.gateway.request.decision import Decider
from trserve.gateway.request.in_flight_requests import InFlightRequests
from trserve.gateway.request.request_handler import RequestHandler
from trserve.gateway.request.retry_decision import Retrier
from trserve.gateway.request.route_requests import RouteRequests
from trserve.gateway.upstream.connection_release import ConnectionRelease

if TYPE_CHECKING:
    from rbalance import RouteRequest
    from rbalance.decide.explain import Explanation
    from trserve.gateway.config.config import InstanceSpec
    from trserve.gateway.config.deployment import GatewayDeployment
    from trserve.gateway.pool.instance import Instance
    from trserve.gateway.pool.local_groups import GroupServer
    from trserve.gateway.pool.telemetry_text import TelemetryReading

_log = structlog.get_logger("trserve.gateway")

_KEEP_ALIVE_S = 4.0  # uvicorn's servers, most of those there are, hang up after 5


class Gateway:
    """Use as `async with`, inside the event loop that serves.

    deployment: in force.
    created: when, in seconds of Unix time.
    balancing: what decides.
    state: what the balancer sees of the instances.
    stats: what the balancer counts.
    pool: the instances.
    requests: what clients may ask for, in the balancer's terms.
    in_flight: the requests under way.
    metrics: what the gateway counts.
    tracing: makes requests' spans.
    keys: those of clients and administrators.
    connections: to instances, after their answers.
    balancer: takes requests' questions; from `async with` on.
    handler: serves requests; from `async with` on.
    """

    def __init__(
        self,
        deployment: GatewayDeployment,
        balancing: Balancing,
        groups: dict[str, GroupServer],
        tracing: Tracing,
        connections: ConnectionRelease | None = None,
    ) -> None:
        """groups: the local ones, which run, by name.

        connections: None: those with the defaults.
        """
        config = deployment.gateway
        self.deployment = deployment
        self.created = int(time.time())
        self.balancing = balancing
        self.state = balancing.state
        self.stats = BalancerStats()
        self.pool = Pool(config, balancing, groups)
        self.requests = RouteRequests(config, self.pool)
        self.in_flight = InFlightRequests(config)
        self.metrics = GatewayMetrics(lambda: instance_rows(self.pool), self.stats)
        self.tracing = tracing
        self.keys = ClientKeys.of(deployment.server)
        self.connections = connections or ConnectionRelease()
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
                self.balancing.foresight(self.stats, self.metrics.batch),
                self.stats,
                NaturalSizing() if config.batching == "natural" else AdaptiveSizing(),
            )
        )
        self.handler = RequestHandler(
            self.deployment,
            self.pool,
            self.requests,
            self.in_flight,
            Decider(self.balancer, self.balancing, self.requests, self.pool, self.metrics),
            Retrier(self.requests, self.pool, self.metrics),
            self.balancing,
            session,
            self.connections,
            self.metrics,
        )
        checks = config.checks
        self._scraper = TelemetryScraper(session, checks.telemetry_s, checks.telemetry_timeout_s)
        self._health = HealthChecker(session, checks.health_s, checks.health_timeout_s)
        self._stack.push_async_callback(self._scraper.close)
        self._stack.push_async_callback(self._health.close)
        watching = asyncio.create_task(self.in_flight.watch())
        self._stack.callback(watching.cancel)
        for at, spec in enumerate(config.instances):
            self.add(spec, f"instances[{at}]")

    async def __aexit__(self, *error: object) -> None:
        await self._stack.aclose()

    def add(self, spec: InstanceSpec, field: str) -> Instance:
        """Open an instance and watch it. Raises ConfigError naming `field`'s part."""
        instance = self.pool.add(spec, field)

        def on_reading(reading: TelemetryReading) -> None:
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
        """Forget it at once. What it has is tried elsewhere, or told of the removal."""
        self._unwatch(instance)
        self.pool.remove(instance)
        _log.info("instance removed", name=instance.name)

    def retire(self, instance: Instance) -> None:
        """Send it nothing more, and forget it once it has finished what it has."""
        self._unwatch(instance)
        self.pool.retire(instance)
        _log.info("instance retired", name=instance.name, in_flight=len(instance.requests))

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
        self.in_flight.configure(config)
        self.handler.configure(deployment)
        self.balancing.configure(config)

    async def explain(self, request: RouteRequest) -> Explanation:
        """Where a request would go now, and why; nothing is dispatched.

        One at a time, or many would keep the predictor from decisions.
        """
        async with self._explaining:
            return await self.balancer.explain(request)
