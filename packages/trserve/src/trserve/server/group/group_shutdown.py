"""The end of a group: closed once, whoever asks first, and not waited for without limit."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import structlog

from trserve.http.daemon_call import daemon_call

if TYPE_CHECKING:
    from trsched.group import Group

_log = structlog.get_logger("trserve")


class GroupShutdown:
    """Ends a group's requests with reason `shutdown` and frees its models."""

    def __init__(self, group: Group, *, patience_s: float = 10.0) -> None:
        """patience_s: seconds to wait for engines, which end their step first."""
        self.group = group
        self._patience_s = patience_s
        self._closing: asyncio.Future[None] | None = None

    @property
    def unfinished(self) -> int:
        """Requests that run or wait."""
        status = self.group.status()
        return status.queued + status.active

    async def close(self) -> bool:
        """Wait for the end; False when an engine does not stop, which then stays behind."""
        if self._closing is None:
            self._closing = daemon_call(self.group.close, "close")
            await asyncio.wait({self._closing}, timeout=self._patience_s)
            if not self._closing.done():
                _log.error("the engines do not stop: leaving them", waited_s=self._patience_s)
        if not self._closing.done():
            return False
        self._closing.result()
        return True
