"""Which headers go through: a request's to the instance, an answer's to the client."""

from __future__ import annotations

import re
from collections.abc import Sequence

Header = tuple[bytes, bytes]
Headers = list[Header]

_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9a-z-]+")
_VALUE = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")

_NOT_SENT_ON = frozenset(
    (
        b"host",
        b"connection",
        b"keep-alive",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
        b"expect",
        b"content-length",
        b"content-encoding",
        b"accept-encoding",
        b"authorization",
        b"cookie",
        b"x-request-id",
    )
)
"""Of a request: hop by hop, set anew, or between the client and this gateway alone."""

_NOT_PASSED_ON = frozenset(
    (
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
        b"content-length",
        b"server",
        b"date",
        b"x-request-id",
    )
)
"""Of a response: hop by hop (RFC 9110, 7.6.1), or this server's own to set."""


def sent_on(client: Sequence[Header], request_id: str) -> dict[str, str]:
    """A client's request headers for an instance; several of one name are joined (RFC 9110, 5.3).

    client: names in lower case, as ASGI's.
    """
    dropped = _NOT_SENT_ON
    for raw, value in client:
        if raw == b"connection":
            dropped |= {each.strip() for each in value.lower().split(b",")}
    headers: dict[str, str] = {}
    for raw, value in client:
        if raw not in dropped:
            name, text = raw.decode("latin-1"), _text(value)
            headers[name] = f"{headers[name]}, {text}" if name in headers else text
    headers["x-request-id"] = request_id
    headers["accept-encoding"] = "identity"  # events are read on their way through
    return headers


def _text(value: bytes) -> str:
    """What aiohttp, which sends UTF-8, makes the same bytes of, where that can be."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


def passed_on(upstream: tuple[tuple[bytes, bytes], ...]) -> Headers:
    """An instance's response headers, less those that are not the client's, or are none.

    An instance may be a gateway itself: the client is told of this one's decision.
    """
    return [
        (name, value)
        for raw, value in upstream
        if (name := raw.lower()) not in _NOT_PASSED_ON
        and not name.startswith(b"x-routebalance-")
        and _NAME.fullmatch(name)
        and _VALUE.fullmatch(value)
    ]
