"""An instance's answer that was read to its end before anything of it went on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trserve.gateway.upstream.headers import Headers


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """All of it.

    headers: those for the client, without the length.
    """

    status: int
    headers: Headers
    body: bytes
