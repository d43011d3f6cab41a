"""From a gateway's configuration to a running server and back: open, serve, drain, stop."""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
import sys
import time
from contextlib import AsyncExitStack
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
from trserve.http.listener import listen, reserve, url_of
from trserve.http.logs import configure_logging
from trserve.http.ready_file import ReadyFile, ready_file
from trserve.http.stop_signals import StopSignals
from trserve.http.uvicorn_server import HttpServer, finish
from trserve.settings.server_settings import unknown_variables

if TYPE_CHECKING:
    from trserve.gateway.config.deployment import GatewayDeployment
    from trserve.gateway.pool.balancing import Balancing

_COLLECT_AFTER = 10_000  # objects; Python's default is 700

STOPPED = 0
STOPPED_AT_ONCE = 130

_log = structlog.get_logger("trserve.gateway")


def launch_gateway(deployment: GatewayDeployment) -> int:
    """Serve until stopped; returns the exit status. Raises ConfigError."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until there is something to change
    server = deployment.server
    configure_logging(server.log_level, json_logs=server.json_logs)
    for name, complaint in unknown_variables().items():
        _log.warning("ignored variable", name=name, why=complaint)
    with reserve(server.host, server.port) as sock, ready_file(server.ready_file) as ready:
        config = deployment.gateway
        _log.info(
            "configuration",
            source=str(deployment.path),
            url=url_of(sock, server.host),
            models=len(config.models),
            instances=len(config.instances),
            policy=config.policy,
            predictor=config.predictor,
        )
        return uvloop.run(_run(deployment, sock, ready))


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


async def _run(deployment: GatewayDeployment, sock: socket.socket, ready: ReadyFile) -> int:
    started = time.monotonic()
    async with AsyncExitStack() as stack:
        stops = stack.enter_context(StopSignals())
        tracing = stack.enter_context(tracing_from_environment())
        opening = asyncio.ensure_future(_open(deployment, stack))
        asked = asyncio.ensure_future(stops.first.wait())
        await asyncio.wait({opening, asked}, return_when=asyncio.FIRST_COMPLETED)
        if not opening.done():
            _log.info("stopping: not everything is loaded")
            opening.cancel()
            await asyncio.wait({opening})
            return STOPPED_AT_ONCE
        asked.cancel()
        balancing, groups = await opening
        gateway = await stack.enter_async_context(Gateway(deployment, balancing, groups, tracing))
        _log.info("loaded", seconds=round(time.monotonic() - started, 1))
        return await _serve(gateway, sock, ready, stops)


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


async def _serve(
    gateway: Gateway, sock: socket.socket, ready: ReadyFile, stops: StopSignals
) -> int:
    server = gateway.deployment.server
    url = url_of(sock, server.host)

    def on_started() -> None:
        _spare_the_collector()
        ready.write(url)
        _log.info("ready", url=url)

    listen(sock, server.host)
    http = HttpServer(create_gateway_app(gateway), access_log=False, on_started=on_started)
    running = asyncio.ensure_future(http.serve([sock]))
    asked = asyncio.ensure_future(stops.first.wait())
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGHUP, _reload, gateway)
    try:
        await asyncio.wait({running, asked}, return_when=asyncio.FIRST_COMPLETED)
        if not asked.done():
            await running  # ended by itself: raises what ended it
            return 1
        status = await _drain(gateway, server.drain_timeout, stops)
        http.should_exit = True
        await finish(http, running)
        return status
    finally:
        loop.remove_signal_handler(signal.SIGHUP)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # by default it would end the process
        asked.cancel()


def _spare_the_collector() -> None:
    """What is loaded by now stays: to search it for garbage took a sixth of the time under load."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER)


async def _drain(gateway: Gateway, limit_s: float, stops: StopSignals) -> int:
    """Let requests under way end, or end them after `limit_s` or on the second signal.

    New ones are answered meanwhile: with a 503, and with where to read that it drains.
    """
    left = len(gateway.in_flight)
    _log.info("stopping", running=left, limit_s=limit_s, hint="Ctrl-C again stops at once")
    drained = asyncio.ensure_future(gateway.in_flight.drain(limit_s))
    at_once = asyncio.ensure_future(stops.second.wait())
    await asyncio.wait({drained, at_once}, return_when=asyncio.FIRST_COMPLETED)
    drained.cancel()
    if at_once.done():
        _log.warning("stopped at once", ended=len(gateway.in_flight))
        gateway.in_flight.stop_all()
        return STOPPED_AT_ONCE
    at_once.cancel()
    if not drained.result():
        _log.warning("drain timeout", ended=len(gateway.in_flight))
        gateway.in_flight.stop_all()
    return STOPPED


def _reload(gateway: Gateway) -> None:
    try:
        reload(gateway)
    except ConfigError as error:
        _log.error("configuration not changed", why=str(error))
