"""Whole responses over a connection that is kept between requests."""

from __future__ import annotations

from trserve.bench.client.connection import BrokenResponseError, Connection
from trserve.bench.client.exchange import exchange
from trserve.bench.client.http_request import request_start, with_body
from trserve.bench.client.server_address import ServerAddress


class KeepAlive:
    """Asks a port of this host, one request at a time; opened anew when it was closed."""

    def __init__(self, port: int) -> None:
        self._address = ServerAddress("127.0.0.1", port)
        self._connection = Connection(self._address)

    async def post(self, path: str, body: bytes) -> bytes:
        """POST JSON: the body of the reply. Raises RuntimeError if its status is not 200."""
        return await self._ask(with_body(request_start("POST", self._address, path), body))

    async def get(self, path: str) -> bytes:
        """The body of the reply. Raises RuntimeError if its status is not 200."""
        return await self._ask(request_start("GET", self._address, path) + b"\r\n")

    async def _ask(self, request: bytes) -> bytes:
        kept = self._connection.is_open
        if not kept:
            self._connection = Connection(self._address)
        try:
            response = await exchange(self._connection, request)
        except BrokenResponseError:
            if not kept:
                raise
            # closed by the server while idle: it has not taken the request
            response = await exchange(self._connection, request)
        if response.status != 200:
            raise RuntimeError(f"{response.status}: {response.body[-500:]!r}")
        return response.body

    def close(self) -> None:
        """End the connection."""
        self._connection.close()
