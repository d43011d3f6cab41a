"""From a deployment to a running server and back: load, serve, drain, stop."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import time
from typing import TYPE_CHECKING, Any

import structlog

from trserve.http.daemon_call import daemon_call
from trserve.http.listener import listen, reserve, url_of
from trserve.http.logs import configure_logging
from trserve.http.ready_file import ReadyFile, ready_file
from trserve.http.stop_signals import StopSignals
from trserve.server.deployment import Deployment
from trserve.server.group.group_shutdown import GroupShutdown
from trserve.server.startup_log import log_deployment, log_ready
from trserve.settings.server_settings import unknown_variables

if TYPE_CHECKING:
    from trsched.group import Group
    from trserve.server.group.served_group import ServedGroup

STOPPED = 0
STOPPED_AT_ONCE = 130

_REMIND_S = 3.0  # how often a long wait is mentioned in the log
_PATIENCE_S = 2.0  # with a loader that was asked to stop

_log = structlog.get_logger("trserve")


def launch(deployment: Deployment) -> int:
    """Serve until stopped; returns the exit status. Raises ConfigError."""
    server = deployment.server
    configure_logging(server.log_level, json_logs=server.json_logs)
    for name, complaint in unknown_variables().items():
        _log.warning("ignored variable", name=name, why=complaint)
    with reserve(server.host, server.port) as sock, ready_file(server.ready_file) as ready:
        status, orphaned = asyncio.run(_run(deployment, sock, ready))
    if orphaned:
        # a thread is still inside a library's loader, which nothing can interrupt
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    return status


async def _run(deployment: Deployment, sock: socket.socket, ready: ReadyFile) -> tuple[int, bool]:
    with StopSignals() as stops:
        loaded, orphaned = await _load(deployment, url_of(sock, deployment.server.host), stops)
        if loaded is None:
            return STOPPED_AT_ONCE, orphaned
        group, serving = loaded
        end = GroupShutdown(group)
        try:
            status = await _serve(deployment, serving, sock, ready, stops, end)
        finally:
            closed = await end.close()
        return status, not closed


async def _load(
    deployment: Deployment, url: str, stops: StopSignals
) -> tuple[tuple[Group, ServedGroup] | None, bool]:
    """The group, loaded in a thread; (None, is the thread still busy) when interrupted."""
    doing = ""
    opened = False

    def report(line: str) -> None:
        nonlocal doing
        if stops.first.is_set() and not opened:
            raise KeyboardInterrupt  # unwinds the loader, which frees what it has
        if not doing:  # a configuration that cannot be served is one line, not a log
            log_deployment(_log, deployment, url)
        doing = line
        (_log.warning if opened else _log.info)(line)  # once it serves: what has failed

    def open_all() -> tuple[Group, ServedGroup]:
        from trserve.server.open_served_group import open_served_group

        nonlocal opened
        group, serving = open_served_group(deployment, report)
        opened = True  # the group's own threads report now: they must live until all is drained
        return group, serving

    started = time.monotonic()
    loading = daemon_call(open_all, "load")
    interrupted = asyncio.ensure_future(stops.first.wait())
    while not loading.done() and not interrupted.done():
        await _first(loading, interrupted, limit_s=_REMIND_S)
        if not loading.done() and not interrupted.done():
            _log.info("still loading", doing=doing, seconds=round(time.monotonic() - started))
    if not interrupted.done():
        interrupted.cancel()
        loaded = await loading
        _log.info("loaded", seconds=round(time.monotonic() - started, 1))
        return loaded, False
    _log.info("stopping: the models are not loaded to the end")
    second = asyncio.ensure_future(stops.second.wait())
    await _first(loading, second, limit_s=_PATIENCE_S)
    second.cancel()
    if loading.done() and not loading.exception():
        return None, not await GroupShutdown(loading.result()[0]).close()
    return None, not loading.done()


async def _serve(
    deployment: Deployment,
    serving: ServedGroup,
    sock: socket.socket,
    ready: ReadyFile,
    stops: StopSignals,
    end: GroupShutdown,
) -> int:
    from trserve.http.uvicorn_server import HttpServer, finish
    from trserve.server.app import create_app

    url = url_of(sock, deployment.server.host)

    def on_started() -> None:
        ready.write(url)
        log_ready(_log, deployment, url)

    listen(sock, deployment.server.host)
    server = HttpServer(
        create_app(serving), access_log=deployment.server.access_log, on_started=on_started
    )
    running = asyncio.ensure_future(server.serve([sock]))
    asked = asyncio.ensure_future(stops.first.wait())
    try:
        await _first(running, asked)
        if not asked.done():
            await running  # ended by itself: raises what ended it
            return 1
        server.should_exit = True
        status = await _drain(end, deployment.server.drain_timeout, stops)
        await finish(server, running)
        return status
    finally:
        asked.cancel()


async def _drain(end: GroupShutdown, limit_s: float, stops: StopSignals) -> int:
    """Let running requests end, or end them after `limit_s` or on the second signal."""
    left = end.unfinished
    _log.info("stopping", running=left, limit_s=limit_s, hint="Ctrl-C again stops at once")
    started = time.monotonic()
    drained = daemon_call(lambda: end.group.drain(limit_s), "drain")
    at_once = asyncio.ensure_future(stops.second.wait())
    while not drained.done() and not at_once.done():
        await _first(drained, at_once, limit_s=_REMIND_S)
        if not drained.done() and not at_once.done():
            _log.info("still running", running=end.unfinished)
    if at_once.done():
        _log.warning("stopped at once", ended=end.unfinished)
        await end.close()
        return STOPPED_AT_ONCE
    at_once.cancel()
    if await drained:
        _log.info("drained", seconds=round(time.monotonic() - started, 1))
    else:
        _log.warning("drain timeout", ended=end.unfinished)
        await end.close()
    return STOPPED


async def _first(*futures: asyncio.Future[Any], limit_s: float | None = None) -> None:
    await asyncio.wait(futures, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
