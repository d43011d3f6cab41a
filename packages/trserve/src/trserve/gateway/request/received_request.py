"""A client's request as it came, before anything is decided."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trserve.gateway.request.parsed_body import ParsedBody


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """Never changes on its way.

    id: for logs, and sent on to the instance.
    path: with the query.
    headers: those that are sent on.
    body: what it asks for.
    received_at: when it began to come, the event loop's time in seconds.
    deadline: when it must be over, the same clock; infinity: never.
    """

    id: str
    path: str
    headers: dict[str, str]
    body: ParsedBody
    received_at: float
    deadline: float
