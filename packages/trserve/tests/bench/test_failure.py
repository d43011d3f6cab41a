"""Kinds of failures, of statuses and of exceptions."""

from __future__ import annotations

import socket
import ssl

import pytest

from trserve.bench.client.connection import BrokenResponseError, NotConnectedError
from trserve.bench.client.failure import failure, failure_of_exception, failure_of_status

DEEP = b'{"x":' + b"[" * 100_000  # more than a parser's stack holds


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
        (NotConnectedError(ConnectionRefusedError(111, "no")), None, "refused"),
        (NotConnectedError(OSError(113, "no route")), None, "unreachable"),
        (NotConnectedError(socket.gaierror(-2, "no name")), None, "unreachable"),
        (NotConnectedError(ssl.SSLCertVerificationError(1, "self-signed")), None, "unreachable"),
        (NotConnectedError(UnicodeError("label too long")), None, "unreachable"),
        (BrokenResponseError("the connection was closed"), None, "disconnected"),
        (BrokenResponseError("the connection was closed"), 200, "broken_stream"),
        (KeyError("unforeseen"), 200, "broken_stream"),
    ],
)
def test_exceptions(error: Exception, status: int | None, kind: str) -> None:
    assert failure_of_exception(error, status).kind == kind


def test_messages_are_one_short_line() -> None:
    made = failure("timeout", "a\n b\t" + "c" * 1000)
    assert made.message.startswith("a b ccc")
    assert (len(made.message), made.message[-1]) == (200, "…")
