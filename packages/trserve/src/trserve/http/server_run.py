"""A server's run: its port taken, then what it serves is opened, served, drained and finished."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trserve.http.listener import listen, reserve, url_of
from trserve.http.logs import configure_logging
from trserve.http.ready_file import ReadyFile, ready_file
from trserve.http.stop_signals import KILLED, REMIND_S, StopSignals, interrupted
from trserve.settings.server_settings import HttpSettings, unknown_variables

if TYPE_CHECKING:
    from starlette.types import ASGIApp
    from structlog.stdlib import BoundLogger

STOPPED = 0
STOPPED_AT_ONCE = KILLED


@dataclass(frozen=True, slots=True)
class Served:
    """What is behind the HTTP server.

    app: answers requests.
    running: how many are under way.
    drain: takes no more of them, and waits for those under way, at most so many seconds; whether
        all have ended.
    stop: ends those that are left.
    on_ready: clients are accepted from now on.
    answers_while_draining: new requests are refused by the app, not by a closed port.
    access_log: uvicorn logs every request.
    """

    app: ASGIApp
    running: Callable[[], int]
    drain: Callable[[float], Awaitable[bool]]
    stop: Callable[[], Awaitable[Any]]
    on_ready: Callable[[], None]
    answers_while_draining: bool
    access_log: bool


@dataclass(frozen=True, slots=True)
class ServerRun:
    """Made by `begin_run`, before anything is loaded.

    settings: how to serve.
    log: what happens.
    sock: bound to the address; clients are refused until `serve` listens.
    ready: written once they are accepted.
    remind_s: how often the log says that it is still draining.
    """

    settings: HttpSettings
    log: BoundLogger
    sock: socket.socket
    ready: ReadyFile
    remind_s: float = REMIND_S

    @property
    def url(self) -> str:
        """Where clients of this machine find the server."""
        return url_of(self.sock, self.settings.host)

    async def serve(self, served: Served, stops: StopSignals) -> int:
        """Until the first signal, and then as long as draining takes; returns the exit status.

        Raises ConfigError when the port was taken meanwhile, and whatever ends the server by
        itself.
        """
        from trserve.http.http_server import HttpServer, finish

        def on_started() -> None:
            self.ready.write(self.url)
            served.on_ready()

        listen(self.sock, self.settings.host)
        server = HttpServer(served.app, access_log=served.access_log, on_started=on_started)
        running = asyncio.ensure_future(server.serve([self.sock]))
        if not await interrupted(running, stops.first):
            await running  # ended by itself: raises what ended it
            return 1
        if not served.answers_while_draining:
            server.should_exit = True
        status = await self._drain(served, stops)
        server.should_exit = True
        await finish(server, running)
        return status

    async def _drain(self, served: Served, stops: StopSignals) -> int:
        """Let requests under way end, or end them after the limit or on the second signal."""
        log, limit_s = self.log, self.settings.drain_timeout
        log.info(
            "stopping",
            running=served.running(),
            limit_s=limit_s,
            hint="Ctrl-C again stops at once",
        )
        started = time.monotonic()
        drained = asyncio.ensure_future(served.drain(limit_s))

        def remind() -> None:
            log.info("still running", running=served.running())

        if await interrupted(drained, stops.second, remind, self.remind_s):
            drained.cancel()
            log.warning("stopped at once", ended=served.running())
            await served.stop()
            return STOPPED_AT_ONCE
        if await drained:
            log.info("drained", seconds=round(time.monotonic() - started, 1))
        else:
            log.warning("drain timeout", ended=served.running())
            await served.stop()
        return STOPPED


@contextmanager
def begin_run(settings: HttpSettings, log: BoundLogger) -> Iterator[ServerRun]:
    """What fails at once rather than after models are loaded: logging, the port, the ready file.

    Raises ConfigError naming the setting.
    """
    configure_logging(settings.log_level, json_logs=settings.json_logs)
    for name, complaint in unknown_variables().items():
        log.warning("ignored variable", name=name, why=complaint)
    with reserve(settings.host, settings.port) as sock, ready_file(settings.ready_file) as ready:
        yield ServerRun(settings, log, sock, ready)
