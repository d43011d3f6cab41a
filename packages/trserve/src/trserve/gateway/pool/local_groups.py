"""Token-routed groups of the gateway's own: each a `trserve launch` on loopback, watched over."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import secrets
import signal
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import structlog

from trsched.errors import ConfigError
from trserve.openai.schemas.model_list import ModelCard, Routing
from trserve.server.deployment import load_deployment

if TYPE_CHECKING:
    from trserve.gateway.config.config import GroupSpec, InstanceSpec

_log = structlog.get_logger("trserve.gateway")

_LOOK_S = 0.05
_STOP_S = 10.0
_ADDED_BYTES = 4096  # that an instance may add to a request: a longer name, its threshold
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)  # not to be looked for between fork and exec


@dataclass(frozen=True, slots=True)
class GroupServer:
    """A local group that runs.

    url: where it listens.
    key: that it wants to see.
    routing: what it serves, as its own `/v1/models` describes it.
    """

    url: str
    key: str
    routing: Routing

    def check(self, spec: InstanceSpec, field: str) -> None:
        """Whether it can serve that entry of the pool. Raises ConfigError; field: the entry's."""
        models, threshold = self.routing.models, self.routing.threshold
        if spec.only is not None and spec.only not in models:
            raise ConfigError(f"{field}.only", f"{spec.only!r} is none of {', '.join(models)}")
        if spec.threshold is None:
            return
        if threshold is None:
            raise ConfigError(f"{field}.threshold", f"the router of {spec.group!r} has none")
        low, high = threshold.low, threshold.high
        if not low <= spec.threshold <= high:
            raise ConfigError(
                f"{field}.threshold", f"must be from {low:g} to {high:g}, not {spec.threshold:g}"
            )


def check_group(spec: GroupSpec, field: str) -> None:
    """Whether its files describe one that might be served. Raises ConfigError naming `field`."""
    try:
        load_deployment(
            preset=spec.preset,
            config=None if spec.config is None else Path(spec.config),
            changes=spec.changes,
        )
    except ConfigError as error:
        raise ConfigError(field, str(error)) from error


class LocalGroup:
    """One group's process."""

    def __init__(
        self,
        spec: GroupSpec,
        *,
        max_body: int,
        debug: bool,
        json_logs: bool,
        restart_s: tuple[float, float] = (1.0, 60.0),
        recovered_s: float = 60.0,
    ) -> None:
        """max_body: bytes of the largest request that the gateway takes.

        debug: it logs everything.
        json_logs: its log is JSON.
        restart_s: first and longest pause before it is started again after it died; it doubles.
        recovered_s: alive for so long, the next death is a new one.
        """
        self._restart_s = restart_s
        self._recovered_s = recovered_s
        self.name = spec.name
        self._url = ""
        self._key = secrets.token_urlsafe(32)
        self._spec = spec
        self._flags = [
            *("--max-body", str(max_body + _ADDED_BYTES)),
            *("--log-level", "debug" if debug else "warning"),
            "--json-logs" if json_logs else "--text-logs",
        ]
        self._process: asyncio.subprocess.Process | None = None
        self._watch: asyncio.Task[None] | None = None

    async def start(self) -> GroupServer:
        """Load it, and keep it alive from then on. Raises ConfigError: it cannot be served."""
        await self._launch(port=0)
        self._watch = asyncio.create_task(self._keep_alive())
        return GroupServer(self._url, self._key, await self._routing())

    async def stop(self) -> None:
        """End it; its requests have been seen to."""
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.wait([self._watch])
        process = self._process
        if process is None or process.returncode is not None:
            return
        for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                process.send_signal(number)
            with suppress(TimeoutError):
                async with asyncio.timeout(_STOP_S):
                    await process.wait()
                return

    async def _launch(self, port: int) -> None:
        with tempfile.TemporaryDirectory(prefix="trserve-group-") as folder:
            ready = Path(folder) / "ready.json"
            self._process = await asyncio.create_subprocess_exec(
                *self._command(port, ready),
                env={**os.environ, "TRSERVE_API_KEY": self._key},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=sys.stderr,
                start_new_session=True,  # a Ctrl-C at the terminal is the gateway's to act on
                preexec_fn=_end_with_parent if sys.platform == "linux" else None,
            )
            while not ready.exists():
                if self._process.returncode is not None:
                    field = f"groups.{self.name}"
                    raise ConfigError(field, "cannot be served: see the lines before this one")
                await asyncio.sleep(_LOOK_S)
            self._url = json.loads(ready.read_text("utf-8"))["url"]
        _log.info("group", name=self.name, url=self._url, pid=self._process.pid)

    async def _routing(self) -> Routing:
        headers = {"authorization": f"Bearer {self._key}"}
        url = f"{self._url}/v1/models/{self.name}"
        async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as answer:
            return ModelCard.model_validate_json(await answer.read()).tokenrouter

    def _command(self, port: int, ready: Path) -> list[str]:
        spec = self._spec
        source = ["--preset", spec.preset] if spec.preset else ["--config", str(spec.config)]
        changes = [word for change in spec.changes for word in ("--set", change)]
        listen = ["--host", "127.0.0.1", "--port", str(port), "--served-name", spec.name]
        return [
            *(sys.executable, "-m", "trserve", "launch", *source, *changes, *listen),
            *("--ready-file", str(ready), *self._flags),
        ]

    async def _keep_alive(self) -> None:
        """Start it again where it was whenever it ends; its instances are down meanwhile."""
        first, most = self._restart_s
        pause = first
        port = int(self._url.rpartition(":")[2])
        began = time.monotonic()
        while True:
            assert self._process is not None
            status = await self._process.wait()
            if time.monotonic() - began > self._recovered_s:
                pause = first
            _log.error("group ended, starting it again", name=self.name, status=status, in_s=pause)
            await asyncio.sleep(pause)
            pause = min(2 * pause, most)
            began = time.monotonic()
            try:
                await self._launch(port)
            except (ConfigError, OSError, ValueError) as error:
                _log.error("group cannot be started", name=self.name, why=str(error))


def _end_with_parent() -> None:
    """Not to be left behind by a gateway that was killed."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
