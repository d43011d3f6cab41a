"""The server's listening socket, reserved before any model is loaded."""

from __future__ import annotations

import errno
import socket

from trsched.errors import ConfigError

BACKLOG = 2048


def reserve(host: str, port: int) -> socket.socket:
    """A socket bound to the address; clients are refused until it listens.

    Raises ConfigError naming `host` or `port`.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError) as error:
        raise ConfigError("server.host", f"{host!r} is no address of this machine") from error
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
    except OSError as error:
        sock.close()
        raise _complaint(error, host, port) from error
    return sock


def listen(sock: socket.socket, host: str) -> None:
    """Accept clients. Raises ConfigError when another server took the port meanwhile."""
    try:
        sock.listen(BACKLOG)
    except OSError as error:
        raise _complaint(error, host, sock.getsockname()[1]) from error


def url_of(sock: socket.socket, host: str) -> str:
    """Where clients of this machine find the server."""
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "": "127.0.0.1"}.get(host, host)
    if ":" in shown and not shown.startswith("["):
        shown = f"[{shown}]"
    return f"http://{shown}:{sock.getsockname()[1]}"


def _complaint(error: OSError, host: str, port: int) -> ConfigError:
    if error.errno == errno.EADDRINUSE:
        return ConfigError(
            "server.port", f"{port} is in use on {host}; stop the other server or take another port"
        )
    if error.errno == errno.EACCES:
        return ConfigError("server.port", f"{port} needs more rights than this user has")
    if error.errno == errno.EADDRNOTAVAIL:
        return ConfigError("server.host", f"{host!r} is no address of this machine")
    return ConfigError("server.port", f"{host}:{port}: {error.strerror}")
