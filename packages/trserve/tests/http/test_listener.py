"""Reserving the port before anything is loaded."""

from __future__ import annotations

import socket

import pytest

from trsched.errors import ConfigError
from trserve.http.listener import listen, reserve, url_of


def test_a_free_port_is_picked():
    with reserve("127.0.0.1", 0) as sock:
        port = sock.getsockname()[1]
        assert url_of(sock, "127.0.0.1") == f"http://127.0.0.1:{port}"
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=5)
        listen(sock, "127.0.0.1")
        socket.create_connection(("127.0.0.1", port), timeout=5).close()


def test_a_port_in_use():
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(ConfigError, match=f"server.port: {port} is in use"):
            reserve("127.0.0.1", port)


def test_a_port_taken_while_loading():
    with reserve("127.0.0.1", 0) as ours:
        port = ours.getsockname()[1]
        with reserve("127.0.0.1", port) as other:
            listen(other, "127.0.0.1")
            with pytest.raises(ConfigError, match="is in use"):
                listen(ours, "127.0.0.1")


def test_not_our_address():
    with pytest.raises(ConfigError, match=r"server.host: '192.0.2.1' is no address"):
        reserve("192.0.2.1", 0)


@pytest.mark.parametrize(("host", "shown"), [("0.0.0.0", "127.0.0.1"), ("localhost", "localhost")])
def test_url(host, shown):
    with reserve(host, 0) as sock:
        assert url_of(sock, host) == f"http://{shown}:{sock.getsockname()[1]}"
