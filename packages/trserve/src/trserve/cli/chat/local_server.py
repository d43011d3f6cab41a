"""The server inside this process, for `trserve chat` without `--url`."""

from __future__ import annotations

import asyncio
import secrets
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from pydantic import SecretStr
from rich.console import Console

from trserve.http.http_server import HttpServer
from trserve.http.listener import listen, reserve, url_of
from trserve.http.logs import configure_logging
from trserve.server.app import create_app
from trserve.server.deployment import Deployment
from trserve.server.open_served_group import open_served_group

_HOST = "127.0.0.1"
_PATIENCE_S = 2.0


@contextmanager
def local_server(deployment: Deployment) -> Iterator[tuple[str, str]]:
    """URL and key of a server on a free port of this machine, for this process alone.

    Raises ConfigError when the models cannot be loaded.
    """
    key = secrets.token_urlsafe(16)
    own = {"host": _HOST, "port": 0, "api_key": SecretStr(key)}
    private = replace(deployment, server=deployment.server.model_copy(update=own))
    configure_logging("warning", json_logs=False)
    with reserve(_HOST, 0) as sock:
        with _progress(deployment) as report:
            group, serving = open_served_group(private, report)
        try:
            listen(sock, _HOST)
            started = threading.Event()
            server = HttpServer(create_app(serving), access_log=False, on_started=started.set)

            def serve() -> None:
                try:
                    asyncio.run(server.serve([sock]))
                finally:
                    started.set()

            thread = threading.Thread(target=serve, name="http", daemon=True)
            thread.start()
            started.wait()
            yield url_of(sock, _HOST), key
        finally:
            group.close()
            server.should_exit = True
            thread.join(_PATIENCE_S)
            server.force_exit = True  # a connection that nobody closes
            thread.join(_PATIENCE_S)


@contextmanager
def _progress(deployment: Deployment) -> Iterator[Callable[[str], None]]:
    """What loading reports, on one line of stderr that goes away; nothing without a terminal."""
    console = Console(stderr=True, highlight=False, markup=False)
    if not sys.stderr.isatty():
        yield lambda line: None
        return
    with console.status(f"loading {deployment.source}") as status:
        yield status.update
