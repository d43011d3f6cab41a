"""Requests that differ from each other: the demo prompts, each time with another number."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator

from rbalance.demo import DEMO_PROMPTS
from rbalance.records import read_records


def requests(model: str, tokens: int, *, stream: bool) -> Iterator[bytes]:
    """Chat requests without end, whole HTTP messages; no two have the same prompt."""
    prompts = [json.dumps(record.prompt)[1:-1].encode() for record in read_records(DEMO_PROMPTS)]
    body = b'{"model":"%b","messages":[{"role":"user","content":"%%b (%%d)"}],"max_tokens":%d%b}'
    body %= (model.encode(), tokens, b',"stream":true' if stream else b"")
    for number in itertools.count(next(_SERIES) * _APART):
        content = body % (prompts[number % len(prompts)], number)
        yield (
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
            % (len(content), content)
        )


_SERIES = itertools.count()
_APART = 10_000_000
