"""Active health: asks every instance again and again whether it lives."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import aiohttp

from trserve.gateway.pool.health_count import HealthCount
from trserve.gateway.pool.polling import Polling

_FALLBACK_PATH = "/v1/models"


class HealthChecker:
    """One check at a time per instance, and none waits for another's.

    Callbacks are called in the event loop, at the first verdict and at each change, and not after
    `unwatch`.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        interval_s: float = 2.0,
        timeout_s: float = 3.0,
        rise: int = 1,
        fall: int = 2,
    ) -> None:
        """session: stays the caller's; its connector must allow one connection per instance.

        interval_s: pause between two checks.
        timeout_s: SGLang answers `/health` after a second at the earliest.
        rise: checks in a row that make an instance healthy.
        fall: checks in a row that make it unhealthy.
        """
        self._session = session
        self._interval_s = interval_s
        self._timeout_s = timeout_s
        self._rise = rise
        self._fall = fall
        self._polling = Polling()

    def watch(
        self,
        key: str,
        url: str,
        on_change: Callable[[bool, str], None],
        path: str = "/health",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Check `url` + `path` from now on: 2xx is healthy.

        on_change: healthy or not, and why. Whenever that path is not there (404), `/v1/models` is
        asked instead: the server may only be starting.

        Raises ValueError: key is watched already.
        """
        count = HealthCount(self._rise, self._fall)

        async def once() -> float:
            asked = path
            status, why = await self._check(url + asked, headers)
            if status == 404 and path != _FALLBACK_PATH:
                asked = _FALLBACK_PATH
                status, why = await self._check(url + asked, headers)
            healthy = 200 <= status < 300
            if count.checked(healthy):
                on_change(healthy, f"{asked}: {why}")
            return self._interval_s

        self._polling.start(key, once)

    def unwatch(self, key: str) -> None:
        """Check it no more; nothing happens if it isn't watched."""
        self._polling.stop(key)

    async def close(self) -> None:
        """Unwatch all."""
        await self._polling.close()

    async def _check(self, url: str, headers: Mapping[str, str] | None) -> tuple[int, str]:
        """Status and reason; the status is 0 where there was none."""
        try:
            async with (
                asyncio.timeout(self._timeout_s),
                self._session.get(
                    url, headers=headers, allow_redirects=False, timeout=aiohttp.ClientTimeout()
                ) as response,
            ):
                return response.status, f"status {response.status}"
        except TimeoutError:
            return 0, f"no answer within {self._timeout_s:g} s"
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return 0, str(error) or type(error).__name__
