"""One server over HTTP: a connection for each request in flight, kept for the next one."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import aiohttp

from trserve.bench.client.failure import failure_of_exception, failure_of_status, failure_to_stream
from trserve.bench.client.response_reading import ResponseReading

_PATHS = {"chat": "/v1/chat/completions", "completions": "/v1/completions"}
# uvicorn closes an idle connection after 5 s: a request must not meet it half closed
_KEEP_ALIVE_S = 4.0
_AFTER_DONE_S = 1.0  # for the end of a response whose [DONE] has come


class ServerError(Exception):
    """The server cannot be reached, or doesn't say which models it has."""


class HttpClient:
    """Use as a context manager, inside the event loop.

    url: scheme and host. timeout: seconds from sending to the end of the response.
    """

    def __init__(
        self, url: str, endpoint: str, headers: Mapping[str, str], *, stream: bool, timeout: float
    ) -> None:
        self._url = url
        self._path = url + _PATHS[endpoint]
        self._stream = stream
        self._timeout = timeout
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0, keepalive_timeout=_KEEP_ALIVE_S, ttl_dns_cache=None
            ),
            headers={
                "Content-Type": "application/json",
                "Accept-Encoding": "identity",
                **headers,
            },
            # asyncio's own below costs nothing while chunks come in
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._session.close()

    async def first_model(self) -> str:
        """The first that the server lists. Raises ServerError."""
        try:
            async with (
                asyncio.timeout(self._timeout),
                self._session.get(self._url + "/v1/models") as response,
            ):
                if response.status != 200:
                    refusal = failure_of_status(response.status, await response.read())
                    raise ServerError(f"GET /v1/models: {refusal.message}")
                listed: Any = await response.json(content_type=None)
                return str(listed["data"][0]["id"])
        except (aiohttp.ClientError, TimeoutError) as error:
            said = failure_of_exception(error, None)
            raise ServerError(f"GET /v1/models: {said.kind}: {said.message}") from error
        except (LookupError, TypeError, ValueError, RecursionError) as error:
            raise ServerError("GET /v1/models: no list of models; say --model") from error

    async def serve(self, body: bytes, reading: ResponseReading) -> None:
        """Send one request and read its response. Whatever goes wrong is in `reading`."""
        try:
            async with (
                asyncio.timeout(self._timeout),
                self._session.post(self._path, data=body, allow_redirects=False) as response,
            ):
                reading.status = response.status
                if response.status != 200:
                    reading.failure = failure_of_status(response.status, await response.read())
                elif not self._stream:
                    whole = await response.read()
                    reading.whole_body(whole, time.perf_counter())
                elif response.content_type == "application/json":
                    reading.failure = failure_to_stream(await response.read())
                else:
                    await _read_stream(response.content, reading)
        except Exception as error:  # noqa: BLE001  one request's bug must not end the load
            if reading.ended is None and reading.failure is None:
                reading.failure = failure_of_exception(error, reading.status)


async def _read_stream(content: aiohttp.StreamReader, reading: ResponseReading) -> None:
    while data := await content.readany():
        reading.received(data, time.perf_counter())
        if reading.failure is not None:
            return
        if reading.ended is not None:
            await _read_rest(content)
            return
    reading.stream_ended(time.perf_counter())


async def _read_rest(content: aiohttp.StreamReader) -> None:
    """To the last byte, so that the connection can be used again; else it is closed."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_AFTER_DONE_S):
            while await content.readany():
                pass
