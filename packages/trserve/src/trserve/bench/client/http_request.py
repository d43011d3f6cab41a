"""HTTP requests as bytes."""

from __future__ import annotations

from collections.abc import Mapping

from trserve.bench.client.server_address import ServerAddress

_OURS = {"content-length"}


def request_start(
    method: str, address: ServerAddress, path: str, headers: Mapping[str, str] | None = None
) -> bytes:
    """The head of a request up to where its length would come; `with_body` makes it whole.

    headers: more of them, or others than ours.
    """
    lines = {"host": f"Host: {address.host_header}", "user-agent": "User-Agent: trserve"}
    if method == "POST":
        lines["content-type"] = "Content-Type: application/json"
    for name, value in (headers or {}).items():
        if name.lower() not in _OURS:
            lines[name.lower()] = f"{name}: {value}"
    head = "\r\n".join([f"{method} {address.path}{path} HTTP/1.1", *lines.values(), ""])
    return head.encode("utf-8", "surrogateescape")


def with_body(start: bytes, body: bytes) -> bytes:
    """A whole request."""
    return b"%bContent-Length: %d\r\n\r\n%b" % (start, len(body), body)
