"""From a gateway's configuration to a running server and back: open, serve, drain, stop."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from typing import TYPE_CHECKING

import structlog
import uvloop

from trsched.errors import ConfigError
from trserve.gateway.access.key_lookup import ClientKeys
from trserve.gateway.gateway import Gateway
from trserve.gateway.http.app import create_gateway_app
from trserve.gateway.metrics.tracing_setup import tracing_from_environment
from trserve.gateway.pool.balancing import open_balancing
from trserve.gateway.pool.instance import key_of
from trserve.gateway.pool.local_groups import GroupServer, LocalGroup, check_group
from trserve.gateway.reload import reload
from trserve.http.server_run import STOPPED_AT_ONCE, Served, ServerRun, begin_run
from trserve.http.stop_signals import StopSignals, interrupted

if TYPE_CHECKING:
    from trserve.gateway.config.deployment import GatewayDeployment
    from trserve.gateway.pool.balancing import Balancing

_COLLECT_AFTER = 10_000  # objects; Python's default is 700

_log = structlog.get_logger("trserve.gateway")


def launch_gateway(deployment: GatewayDeployment) -> int:
    """Serve until stopped; returns the exit status. Raises ConfigError."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until there is something to change
    with begin_run(deployment.server, _log) as run:
        config = deployment.gateway
        _log.info(
            "configuration",
            source=str(deployment.path),
            url=run.url,
            models=len(config.models),
            instances=len(config.instances),
            policy=config.policy,
            predictor=config.predictor,
        )
        return uvloop.run(_run(deployment, run))


def check_gateway(deployment: GatewayDeployment) -> int:
    """Load what decides, read keys and groups' files, but start nothing. Raises ConfigError."""
    config = deployment.gateway
    balancing = open_balancing(config)
    ClientKeys.of(deployment.server)
    for at, group in enumerate(config.groups):
        check_group(group, f"groups[{at}]")
    for at, spec in enumerate(config.instances):
        key_of(spec, f"instances[{at}]")
        balancing.check_tier(spec.tier or spec.model, f"instances[{at}].tier")
    sys.stdout.write(
        f"{deployment.path} is all right: {len(config.models)} models, "
        f"{len(config.instances)} instances, {len(config.groups)} local groups\n"
    )
    return 0


async def _run(deployment: GatewayDeployment, run: ServerRun) -> int:
    started = time.monotonic()
    async with AsyncExitStack() as stack:
        stops = stack.enter_context(StopSignals())
        tracing = stack.enter_context(tracing_from_environment())
        opening = asyncio.ensure_future(_open(deployment, stack))
        if await interrupted(opening, stops.first):
            _log.info("stopping: not everything is loaded")
            opening.cancel()
            await asyncio.gather(opening, return_exceptions=True)
            return STOPPED_AT_ONCE
        balancing, groups = await opening
        gateway = await stack.enter_async_context(Gateway(deployment, balancing, groups, tracing))
        _log.info("loaded", seconds=round(time.monotonic() - started, 1))
        served = _served(gateway, run.url)
        _spare_the_collector()
        with _reloading_on_hangup(gateway):
            return await run.serve(served, stops)


async def _open(
    deployment: GatewayDeployment, stack: AsyncExitStack
) -> tuple[Balancing, dict[str, GroupServer]]:
    """Predictors and local groups, loaded at the same time; the stack ends the groups."""
    server = deployment.server
    groups = [
        LocalGroup(
            spec,
            max_body=server.body_bytes,
            debug=server.log_level == "debug",
            json_logs=server.json_logs,
        )
        for spec in deployment.gateway.groups
    ]
    for group in groups:
        stack.push_async_callback(group.stop)
    loading = asyncio.to_thread(open_balancing, deployment.gateway)
    balancing, servers = await asyncio.gather(
        loading, asyncio.gather(*(group.start() for group in groups))
    )
    return balancing, {group.name: at for group, at in zip(groups, servers, strict=True)}


def _served(gateway: Gateway, url: str) -> Served:
    in_flight = gateway.in_flight

    async def stop() -> None:
        in_flight.stop_all()

    return Served(
        app=create_gateway_app(gateway),
        running=lambda: len(in_flight),
        drain=in_flight.drain,
        stop=stop,
        on_ready=lambda: _log.info("ready", url=url),
        answers_while_draining=True,  # with a 503, and with where to read that it drains
        access_log=False,
    )


@contextmanager
def _reloading_on_hangup(gateway: Gateway) -> Iterator[None]:
    def follow() -> None:
        try:
            reload(gateway)
        except ConfigError as error:
            _log.error("configuration not changed", why=str(error))

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGHUP, follow)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGHUP)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # by default it would end the process


def _spare_the_collector() -> None:
    """What is loaded by now stays: to search it for garbage took a sixth of the time under load."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER)
