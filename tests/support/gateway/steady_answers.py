"""What of a real server's answer is the same every time it is asked."""

from __future__ import annotations

import re
from collections.abc import Callable

import httpx


def steady(
    answer: httpx.Response, volatile: re.Pattern[str], of_stream: Callable[[str], object]
) -> tuple[int, str, object]:
    """Status, content type, and the body without what is volatile, or what `of_stream` makes of it.

    How many tokens an event has differs from time to time.
    """
    kind = answer.headers["content-type"]
    if kind.startswith("text/event-stream"):
        return answer.status_code, kind, of_stream(answer.text)
    return answer.status_code, kind, volatile.sub("", answer.text)
