"""uvicorn, run inside our own event loop and stopped by us rather than by its signal handlers."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

_FLUSH_S = 2.0  # for clients to read their last chunk once everything has ended


class HttpServer(uvicorn.Server):
    """Calls `on_started` once requests are accepted; `should_exit` stops it."""

    def __init__(self, app: ASGIApp, *, access_log: bool, on_started: Callable[[], None]) -> None:
        super().__init__(
            uvicorn.Config(
                app, log_config=None, access_log=access_log, server_header=False, lifespan="on"
            )
        )
        self._on_started = on_started

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals alone."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept requests, then say so."""
        await super().startup(sockets)
        if self.started:
            self._on_started()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close connections, end the app's lifespan (uvicorn leaves it running when forced)."""
        await super().shutdown(sockets)
        if self.force_exit:
            await self.lifespan.shutdown()


async def finish(server: HttpServer, running: asyncio.Future[None]) -> None:
    """Wait for clients to read what there is; leave those that don't."""
    done, _ = await asyncio.wait({running}, timeout=_FLUSH_S)
    if not done:
        server.force_exit = True
        done, _ = await asyncio.wait({running}, timeout=_FLUSH_S)
    if not done:
        running.cancel()
        await asyncio.wait({running})
    elif error := running.exception():
        raise error
