"""Whether a proxy passes on what the upstream said, before anything is measured."""

from __future__ import annotations

import json
import urllib.request

from benchmarks.proxy.proxy_process import Proxy, StartError

_TOKENS = 5
_TEXT = " token" * _TOKENS


def extra_events(proxy: Proxy) -> int:
    """How many events of a stream are not a token.

    Raises StartError if a response, streamed or not, is not the upstream's.
    """
    whole = json.loads(_ask(proxy, stream=False))
    text = whole["choices"][0]["message"]["content"]
    events = [part for part in _ask(proxy, stream=True).split(b"\n\n") if part.strip()]
    chunks = [json.loads(each.removeprefix(b"data: ")) for each in events[:-1]]
    deltas = [chunk["choices"][0]["delta"].get("content") for chunk in chunks if chunk["choices"]]
    streamed = "".join(delta or "" for delta in deltas)
    if text != _TEXT or streamed != _TEXT or events[-1].strip() != b"data: [DONE]":
        raise StartError(f"it changes responses: {text!r} and {streamed!r} instead of {_TEXT!r}")
    return len(events) - sum(map(bool, deltas))


def _ask(proxy: Proxy, *, stream: bool) -> bytes:
    asked = {
        "model": proxy.model,
        "messages": [{"role": "user", "content": "hello"}],
        "max_tokens": _TOKENS,
        "stream": stream,
    }
    request = urllib.request.Request(
        f"http://127.0.0.1:{proxy.port}/v1/chat/completions",
        json.dumps(asked).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=30) as response:
        return bytes(response.read())
