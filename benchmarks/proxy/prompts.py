"""Requests that differ from each other: the demo prompts, with a number each time around."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from functools import cache

from rbalance.demo import DEMO_PROMPTS
from rbalance.labels.records import read_records


def requests(model: str, tokens: int, *, stream: bool, usage: bool = False) -> Iterator[bytes]:
    """Chat requests without end, whole HTTP messages; no two have the same prompt.

    usage: whether a stream is to end with its tokens counted.
    """
    prompts = _prompts()
    body = b'{"model":"%b","messages":[{"role":"user","content":"%%b %%d"}],"max_tokens":%d%b}'
    body %= (model.encode(), tokens, _STREAMED[stream + usage])
    for number in _NUMBERS:
        again, at = divmod(number, len(prompts))
        content = body % (prompts[at], again)
        yield (
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
            % (len(content), content)
        )


@cache
def _prompts() -> list[bytes]:
    return [json.dumps(record.prompt)[1:-1].encode() for record in read_records(DEMO_PROMPTS)]


_STREAMED = (b"", b',"stream":true', b',"stream":true,"stream_options":{"include_usage":true}')
_NUMBERS = itertools.count()
