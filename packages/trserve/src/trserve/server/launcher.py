"""From a deployment to a running server and back: load, serve, drain, stop."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import structlog

from trserve.http.daemon_call import daemon_call
from trserve.http.server_run import STOPPED_AT_ONCE, Served, ServerRun, begin_run
from trserve.http.stop_signals import StopSignals, interrupted
from trserve.server.deployment import Deployment
from trserve.server.group.group_shutdown import GroupShutdown
from trserve.server.startup_log import log_deployment, log_ready

if TYPE_CHECKING:
    from trsched.group import Group
    from trserve.server.group.served_group import ServedGroup

_PATIENCE_S = 2.0  # with a loader that was asked to stop

_log = structlog.get_logger("trserve")


def launch(deployment: Deployment) -> int:
    """Serve until stopped; returns the exit status. Raises ConfigError."""
    with begin_run(deployment.server, _log) as run:
        status, orphaned = asyncio.run(_run(deployment, run))
    if orphaned:
        # a thread is still inside a library's loader, which nothing can interrupt
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    return status


async def _run(deployment: Deployment, run: ServerRun) -> tuple[int, bool]:
    """The exit status, and whether a thread is left behind."""
    with StopSignals() as stops:
        loaded, orphaned = await _load(deployment, run.url, stops)
        if loaded is None:
            return STOPPED_AT_ONCE, orphaned
        group, served = loaded
        shutdown = GroupShutdown(group)
        try:
            status = await run.serve(_to_serve(deployment, served, run.url, shutdown), stops)
        finally:
            closed = await shutdown.close()
        return status, not closed


def _to_serve(
    deployment: Deployment, served: ServedGroup, url: str, shutdown: GroupShutdown
) -> Served:
    from trserve.server.app import create_app

    return Served(
        app=create_app(served),
        running=lambda: shutdown.unfinished,
        drain=lambda limit_s: daemon_call(lambda: shutdown.group.drain(limit_s), "drain"),
        stop=shutdown.close,
        on_ready=lambda: log_ready(_log, deployment, url),
        answers_while_draining=False,
        access_log=deployment.server.access_log,
    )


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
        group, served = open_served_group(deployment, report)
        opened = True  # the group's own threads report now: they must live until all is drained
        return group, served

    started = time.monotonic()

    def remind() -> None:
        _log.info("still loading", doing=doing, seconds=round(time.monotonic() - started))

    loading = daemon_call(open_all, "load")
    if not await interrupted(loading, stops.first, remind):
        loaded = await loading
        _log.info("loaded", seconds=round(time.monotonic() - started, 1))
        return loaded, False
    _log.info("stopping: the models are not loaded to the end")
    with suppress(TimeoutError):
        async with asyncio.timeout(_PATIENCE_S):
            await interrupted(loading, stops.second)
    if loading.done() and not loading.exception():
        return None, not await GroupShutdown(loading.result()[0]).close()
    return None, not loading.done()
