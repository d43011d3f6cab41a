"""One server over HTTP: a connection for each request in flight, kept for the next one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import msgspec

from trserve.bench.client.connection import BrokenResponseError, Connection, NotConnectedError
from trserve.bench.client.exchange import exchange
from trserve.bench.client.failure import failure_of_exception, failure_of_status
from trserve.bench.client.http_request import request_start, with_body
from trserve.bench.client.reading_receiver import ReadingReceiver
from trserve.bench.client.response_reading import ResponseReading
from trserve.bench.client.server_address import ServerAddress

_PATHS = {"chat": "/v1/chat/completions", "completions": "/v1/completions"}


class ServerError(Exception):
    """The server cannot be reached, or doesn't say which models it has."""


class HttpClient:
    """Use as a context manager, inside the event loop.

    url: scheme and host, maybe a path.
    timeout: seconds from sending to the end of the response.
    keep_alive: seconds that a connection may have been idle to be used again. Less than the 5 after
        which uvicorn closes one: a request must not meet it half closed.
    after_done: seconds that a response may go on after its [DONE].
    """

    def __init__(
        self,
        url: str,
        endpoint: str,
        headers: Mapping[str, str],
        *,
        stream: bool,
        timeout: float,
        keep_alive: float = 4.0,
        after_done: float = 1.0,
    ) -> None:
        headers = {"Accept": "*/*", "Accept-Encoding": "identity", **headers}
        self._address = ServerAddress.of_url(url)
        self._start = request_start("POST", self._address, _PATHS[endpoint], headers)
        self._list_models = request_start("GET", self._address, "/v1/models", headers)
        self._stream = stream
        self._timeout = timeout
        self._keep_alive = keep_alive
        self._after_done = after_done
        self._idle: list[tuple[Connection, float]] = []  # and since when; the latest is last

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for connection, _ in self._idle:
            connection.close()

    async def first_model(self) -> str:
        """The first that the server lists. Raises ServerError."""
        connection = Connection(self._address)
        try:
            async with asyncio.timeout(self._timeout):
                response = await exchange(connection, self._list_models + b"\r\n")
            if response.status != 200:
                refusal = failure_of_status(response.status, response.body)
                raise ServerError(f"GET /v1/models: {refusal.message}")
            listed: Any = msgspec.json.decode(response.body)
            return str(listed["data"][0]["id"])
        except (NotConnectedError, BrokenResponseError, TimeoutError) as error:
            said = failure_of_exception(error, None)
            raise ServerError(f"GET /v1/models: {said.kind}: {said.message}") from error
        except (LookupError, TypeError, ValueError, RecursionError) as error:
            raise ServerError("GET /v1/models: no list of models; say --model") from error
        finally:
            connection.close()

    async def serve(self, body: bytes, reading: ResponseReading) -> None:
        """Send one request and read its response. Whatever goes wrong is in `reading`."""
        connection = self._connection()
        receiver = ReadingReceiver(reading, stream=self._stream, after_done=self._after_done)
        deadline = asyncio.get_running_loop().call_later(self._timeout, receiver.on_timeout)
        connection.send(with_body(self._start, body), receiver)
        try:
            await receiver.ended
        finally:
            deadline.cancel()
            if connection.receiver is None and connection.is_open:
                self._idle.append((connection, time.perf_counter()))
            else:
                connection.close()

    def _connection(self) -> Connection:
        """The one that was used last, where it is fresh enough: a new one else."""
        while self._idle:
            connection, since = self._idle.pop()
            if connection.is_open and time.perf_counter() - since < self._keep_alive:
                return connection
            connection.close()
        return Connection(self._address)
