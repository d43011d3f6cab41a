"""Reads the instances' metrics pages, each at its own pace, away from the requests' path."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import aiohttp

from trserve.gateway.pool.polling import Polling
from trserve.gateway.pool.telemetry_text import TelemetryReading, read_metrics

_LARGEST_PAGE = 1 << 20  # bytes; a server's page has some 100 kB


class _FetchError(Exception):
    """No page; the message is the reason to show."""


class _UnsuitableError(_FetchError):
    """The server answers, but with nothing of use, and is unlikely to soon."""


class TelemetryScraper:
    """One fetch at a time per instance, and none waits for another's.

    Callbacks are called in the event loop, once per fetch, and not after `unwatch`.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        interval_s: float = 0.2,
        timeout_s: float = 1.0,
        unsuitable_s: float = 5.0,
        after_a_bug_s: float = 5.0,
    ) -> None:
        """session: stays the caller's; its connector must allow one connection per instance.

        interval_s: pause between two fetches.
        timeout_s: for the whole page, so that one that comes in drops is a failure, too.
        unsuitable_s: pause after an answer without a load, as a 404 or some other page.
        after_a_bug_s: pause after a callback that raised something.
        """
        self._session = session
        self._interval_s = interval_s
        self._timeout_s = timeout_s
        self._unsuitable_s = unsuitable_s
        self._polling = Polling(after_a_bug_s)

    def watch(
        self,
        key: str,
        url: str,
        on_reading: Callable[[TelemetryReading], None],
        on_failure: Callable[[str], None],
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Fetch `url`, the metrics page, from now on; on_failure is told why, in a few words.

        Raises ValueError: key is watched already.
        """

        async def once() -> float:
            try:
                reading = await self._read(url, headers)
            except _FetchError as error:
                on_failure(str(error))
                unsuitable = isinstance(error, _UnsuitableError)
                return self._unsuitable_s if unsuitable else self._interval_s
            on_reading(reading)
            return self._interval_s

        self._polling.start(key, once)

    def unwatch(self, key: str) -> None:
        """Ask it no more; nothing happens if it isn't watched."""
        self._polling.stop(key)

    async def close(self) -> None:
        """Unwatch all."""
        await self._polling.close()

    async def _read(self, url: str, headers: Mapping[str, str] | None) -> TelemetryReading:
        try:
            async with asyncio.timeout(self._timeout_s):
                page = await self._fetch(url, headers)
        except TimeoutError:
            raise _FetchError(f"no whole metrics page within {self._timeout_s:g} s") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _FetchError(f"metrics page: {str(error) or type(error).__name__}") from error
        reading = read_metrics(page)
        if reading is None:
            raise _UnsuitableError("metrics page without a known server's load")
        return reading

    async def _fetch(self, url: str, headers: Mapping[str, str] | None) -> bytes:
        # The session may leave compressed bodies as they are, for those that it only passes on.
        plain = {"accept-encoding": "identity", **(headers or {})}
        async with self._session.get(
            url, headers=plain, allow_redirects=False, timeout=aiohttp.ClientTimeout()
        ) as response:
            if response.status != 200:
                kind = _FetchError if response.status >= 500 else _UnsuitableError
                raise kind(f"metrics page: status {response.status}")
            page = bytearray()
            async for data in response.content.iter_any():
                page += data
                if len(page) > _LARGEST_PAGE:
                    raise _UnsuitableError(f"metrics page above {_LARGEST_PAGE >> 20} MiB")
            return bytes(page)
