"""Blocking calls beside an event loop, in threads that never hold up the end of the process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


def daemon_call(call: Callable[[], T], name: str) -> asyncio.Future[T]:
    """The result of `call`, run in a daemon thread, as a future of the running loop.

    An executor would wait for its threads at exit, whatever the user's second Ctrl-C says.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(result)  # type: ignore[arg-type]  # call's own result
        else:
            future.set_exception(error)

    def run() -> None:
        result: T | None = None
        error: BaseException | None = None
        try:
            result = call()
        except BaseException as caught:  # noqa: BLE001 - handed to whoever awaits the future
            error = caught
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future
