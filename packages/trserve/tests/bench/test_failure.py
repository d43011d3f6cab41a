"""Kinds of failures, of statuses and of exceptions."""

from __future__ import annotations

import aiohttp
import pytest
from aiohttp.client_reqrep import ConnectionKey

from trserve.bench.client.failure import failure, failure_of_exception, failure_of_status

DEEP = b'{"x":' + b"[" * 100_000  # more than a parser's stack holds
KEY = ConnectionKey("host", 80, False, True, None, None, None)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "status_4xx"),
        (401, "status_4xx"),
        (404, "status_4xx"),
        (429, "status_429"),
        (499, "status_4xx"),
        (500, "status_5xx"),
        (503, "status_5xx"),
        (204, "status_other"),
        (302, "status_other"),
    ],
)
def test_statuses(status: int, kind: str) -> None:
    assert failure_of_status(status, b"").kind == kind


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"error":{"message":"queue full"}}', "503: queue full"),
        (b'{"error":"queue full"}', "503: queue full"),
        (b'{"object":"error","message":"queue full"}', "503: queue full"),
        (b"queue\nfull", "503: queue full"),
        (b'{"detail":"queue full"}', '503: {"detail":"queue full"}'),
        (b"\xff", "503: \ufffd"),
        (b"[]", "503: []"),
        (DEEP, '503: {"x":' + "[" * 189 + "…"),
    ],
)
def test_what_a_refusal_says(body: bytes, said: str) -> None:
    assert failure_of_status(503, body).message == said


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (TimeoutError(), None, "timeout"),
        (TimeoutError(), 200, "timeout"),
        (aiohttp.ServerTimeoutError(), 200, "timeout"),
        (aiohttp.ClientConnectorError(KEY, ConnectionRefusedError(111, "no")), None, "refused"),
        (aiohttp.ClientConnectorError(KEY, OSError(113, "no route")), None, "unreachable"),
        (aiohttp.ClientConnectorDNSError(KEY, OSError(-2, "no name")), None, "unreachable"),
        (aiohttp.ServerDisconnectedError(), None, "disconnected"),
        (aiohttp.ClientOSError(104, "reset"), None, "disconnected"),
        (aiohttp.ClientOSError(104, "reset"), 200, "broken_stream"),
        (aiohttp.ClientPayloadError("incomplete"), 200, "broken_stream"),
        (KeyError("unforeseen"), 200, "broken_stream"),
    ],
)
def test_exceptions(error: Exception, status: int | None, kind: str) -> None:
    assert failure_of_exception(error, status).kind == kind


def test_messages_are_one_short_line() -> None:
    made = failure("timeout", "a\n b\t" + "c" * 1000)
    assert made.message.startswith("a b ccc")
    assert (len(made.message), made.message[-1]) == (200, "…")
