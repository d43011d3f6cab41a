"""Where a server is, and connections to it."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Sequence
from urllib.parse import quote, urlsplit

import aiohappyeyeballs

_NEXT_ADDRESS_S = 0.25  # until another address is tried beside the first (RFC 8305)


class ServerAddress:
    """A host and a port. Its name is looked up once, for all connections.

    path: of the URL, in front of every request's own; without a last slash.
    host_header: as HTTP wants it.
    """

    def __init__(
        self, host: str, port: int, *, tls: ssl.SSLContext | None = None, path: str = ""
    ) -> None:
        name = f"[{host}]" if ":" in host else host
        usual = 80 if tls is None else 443
        self.host_header = name if port == usual else f"{name}:{port}"
        self.path = path
        self._host = host
        self._port = port
        self._tls = tls
        self._looking_up = asyncio.Lock()
        self._found: Sequence[aiohappyeyeballs.AddrInfoType] = _numeric(host, port)

    @classmethod
    def of_url(cls, url: str) -> ServerAddress:
        """url: http or https, a host, maybe a port and a path."""
        parts = urlsplit(url)
        tls = ssl.create_default_context() if parts.scheme == "https" else None
        port = parts.port or (80 if tls is None else 443)
        return cls(_ascii(parts.hostname or ""), port, tls=tls, path=quote(parts.path, safe="/%"))

    async def connect(self, protocol: asyncio.Protocol) -> None:
        """Open one for `protocol`. Raises OSError, UnicodeError for a name that cannot be one."""
        loop = asyncio.get_running_loop()
        async with self._looking_up:
            if not self._found:
                self._found = await loop.getaddrinfo(
                    self._host, self._port, type=socket.SOCK_STREAM
                )
        opened = await aiohappyeyeballs.start_connection(
            self._found, happy_eyeballs_delay=_NEXT_ADDRESS_S
        )
        name = None if self._tls is None else self._host
        await loop.create_connection(
            lambda: protocol, sock=opened, ssl=self._tls, server_hostname=name
        )


def _numeric(host: str, port: int) -> Sequence[aiohappyeyeballs.AddrInfoType]:
    """An address that is none of a name needs no lookup; empty for a name."""
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except (socket.gaierror, UnicodeError):
        return []


def _ascii(host: str) -> str:
    """Names beyond ASCII as DNS has them; one that cannot be is found out by the lookup."""
    try:
        return host.encode("idna").decode() if not host.isascii() else host
    except UnicodeError:
        return host
