"""The events of a finished stream."""

from __future__ import annotations

import json
from typing import Any


def sse_events(text: str) -> list[dict[str, Any]]:
    """The data of each event; the last must be [DONE]."""
    assert text.endswith("\n\n")
    *lines, done = text.removesuffix("\n\n").split("\n\n")
    assert done == "data: [DONE]"
    assert all(line.startswith("data: ") and "\n" not in line for line in lines)
    return [json.loads(line.removeprefix("data: ")) for line in lines]


def delta_text(events: list[dict[str, Any]]) -> str:
    """The text of a chat stream's first choice."""
    return "".join(
        choice["delta"].get("content", "") for event in events for choice in event["choices"]
    )
