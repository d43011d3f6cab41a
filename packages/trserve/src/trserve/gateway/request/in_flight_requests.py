"""The requests under way: who may come in now, who must stop, and when all have ended."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING

from trserve.gateway.access import key_limits
from trserve.http.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from trserve.gateway.access.key_lookup import Caller
    from trserve.gateway.config.config import GatewayConfig, Timeouts
    from trserve.gateway.request.interruptible_task import InterruptibleTask
    from trserve.gateway.request.parsed_body import ParsedBody
    from trserve.gateway.request.stop_reasons import StopReason

_LOOK_S = 0.1


def overdue(task: InterruptibleTask, timeouts: Timeouts, now: float) -> StopReason | None:
    """Why a request must be stopped now, if it must."""
    if now > task.deadline:
        return "deadline"
    waited = now - task.touched
    match task.phase:
        case "waiting":
            return None
        case "first byte":
            limit = timeouts.first_byte_s if task.stream else timeouts.whole_s
            return "timeout" if waited > limit else None
        case "streaming":
            return "timeout" if waited > timeouts.idle_s else None
        case "client":
            return "client stalled" if waited > timeouts.client_s else None


class InFlightRequests:
    """One owner of admission, of what is under way, and of the drain.

    draining: nobody may come in any more.
    """

    def __init__(self, config: GatewayConfig) -> None:
        self.configure(config)
        self.draining = False
        self._tasks: set[InterruptibleTask] = set()
        self._empty = asyncio.Event()

    def __len__(self) -> int:
        return len(self._tasks)

    def configure(self, config: GatewayConfig) -> None:
        """Use these timeouts and this limit from now on."""
        self._timeouts = config.timeouts
        self._most = config.max_waiting

    @contextmanager
    def admitted(
        self,
        task: InterruptibleTask,
        body: ParsedBody,
        caller: Caller | None,
        tokens_used: Callable[[], int],
    ) -> Iterator[None]:
        """While a request is under way. Raises ApiError: not now, or not with this key.

        caller: whose key it came with; None: none was wanted.
        tokens_used: asked at the end, how many tokens it came to.
        """
        self._check_room()
        if caller is not None:
            key_limits.check_models(caller, body.names)
            key_limits.take(caller, body.most_tokens)
        self._tasks.add(task)
        try:
            yield
        finally:
            if caller is not None:
                key_limits.give_back(caller, body.most_tokens, tokens_used())
            self._tasks.discard(task)
            self._check_empty()

    def _check_room(self) -> None:
        if self.draining:
            message = "The gateway is shutting down; try again later."
            headers = {"retry-after": "5", "connection": "close"}
            raise ApiError(503, message, code="shutdown", headers=headers)
        if len(self._tasks) >= self._most:
            message = f"{len(self._tasks)} requests are under way, as many as may be."
            raise ApiError(429, message, code="queue_full", headers={"retry-after": "1"})

    async def watch(self) -> None:
        """Stop those that wait too long, until cancelled.

        One look at all of them every so often, and no timer for each.
        """
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_LOOK_S)
            now = loop.time()
            for task in [each for each in self._tasks if each.stopped is None]:
                if (why := overdue(task, self._timeouts, now)) is not None:
                    task.stop(why)

    async def drain(self, limit_s: float) -> bool:
        """Take no more and wait for those under way; whether all ended in time."""
        self.draining = True
        self._check_empty()
        try:
            async with asyncio.timeout(limit_s):
                await self._empty.wait()
        except TimeoutError:
            return False
        return True

    def stop_all(self) -> None:
        """End all that are under way."""
        for task in list(self._tasks):
            task.stop("shutdown")

    def _check_empty(self) -> None:
        if self.draining and not self._tasks:
            self._empty.set()
