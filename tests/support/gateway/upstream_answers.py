"""What OpenAI-compatible servers answer, well or badly: scripts for a ScriptedUpstream."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Sequence
from typing import Any

from tests.support.gateway.gate import Gate
from tests.support.gateway.scripted_upstream import Exchange, Script

JSON = "application/json"
EVENTS = "text/event-stream"
DONE = b"data: [DONE]\n\n"
LAST_CHUNK = b"0\r\n\r\n"


def response(
    status: int,
    body: bytes = b"",
    kind: str = JSON,
    headers: Iterable[str] = ("connection: close",),
) -> bytes:
    """A whole response, by its length."""
    lines = [f"HTTP/1.1 {status} -", f"content-type: {kind}", f"content-length: {len(body)}"]
    return "\r\n".join([*lines, *headers, "", ""]).encode("latin-1") + body


def chunked_head(status: int = 200, kind: str = EVENTS, headers: Iterable[str] = ()) -> bytes:
    """The head of a response that comes in chunks."""
    lines = [f"HTTP/1.1 {status} -", f"content-type: {kind}", "transfer-encoding: chunked"]
    return "\r\n".join([*lines, *headers, "", ""]).encode("latin-1")


def chunk(data: bytes) -> bytes:
    """One chunk of it."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def play(*steps: bytes | Gate) -> Script:
    """Write, wait at gates, write; then close the connection."""

    async def script(exchange: Exchange) -> None:
        exchange.keep_alive = False
        for step in steps:
            if isinstance(step, Gate):
                await step.passed()
            else:
                await exchange.write(step)

    return script


def raw(data: bytes) -> Script:
    """These bytes, whatever they are, then close."""
    return play(data)


def always(status: int, body: bytes = b"", kind: str = JSON, headers: Iterable[str] = ()) -> Script:
    """A response and a closed connection."""
    return play(response(status, body, kind, (*headers, "connection: close")))


def whole(body: bytes, *headers: str, status: int = 200, kind: str = JSON) -> Script:
    """A response by its length, on a connection that is kept."""

    async def script(exchange: Exchange) -> None:
        await exchange.write(response(status, body, kind, headers))

    return script


def streamed(parts: Sequence[bytes], *headers: str, kind: str = EVENTS) -> Script:
    """A response in these chunks, each a write of its own, on a connection that is kept."""

    async def script(exchange: Exchange) -> None:
        await exchange.write(chunked_head(200, kind, headers))
        for part in parts:
            await exchange.write(chunk(part))
        await exchange.write(LAST_CHUNK)

    return script


def held(gate: Gate, script: Script) -> Script:
    """The same once the gate is open."""

    async def later(exchange: Exchange) -> None:
        await gate.passed()
        await script(exchange)

    return later


def in_turn(*scripts: Script) -> Script:
    """One for each request; the last for all that follow."""
    left = iter(scripts)

    async def script(exchange: Exchange) -> None:
        await next(left, scripts[-1])(exchange)

    return script


async def hang(exchange: Exchange) -> None:
    """Never answer."""
    await asyncio.Event().wait()


async def reset(exchange: Exchange) -> None:
    """Drop the connection without a word."""
    exchange.reset()


async def dribble(exchange: Exchange) -> None:
    """A page without an end, a line every few milliseconds."""
    await exchange.write(b"HTTP/1.1 200 -\r\nconnection: close\r\n\r\n")
    while True:
        await exchange.write(b"vllm:num_requests_running 1\n")
        await asyncio.sleep(0.002)


def event(data: object) -> bytes:
    """One server-sent event."""
    return b"data: " + json.dumps(data, ensure_ascii=False).encode() + b"\n\n"


def usage(tokens: int, prompt: int = 5) -> dict[str, int]:
    """As servers count."""
    return {
        "prompt_tokens": prompt,
        "completion_tokens": tokens,
        "total_tokens": prompt + tokens,
    }


def chat_chunk(
    text: str | None, *, index: int = 0, finish: str | None = None, **more: Any
) -> dict[str, Any]:
    """A chunk of a chat's stream; more: its other fields. text: None: without choices."""
    delta = {} if finish else {"content": text}
    choice = {"index": index, "delta": delta, "finish_reason": finish}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "up",
        "choices": [] if text is None else [choice],
        **more,
    }


def chat_events(texts: Sequence[str], tokens: int | None = None) -> list[bytes]:
    """A whole stream, an event each; tokens: of a last chunk with the usage."""
    parts = [event(chat_chunk(text)) for text in texts]
    parts.append(event(chat_chunk("", finish="stop")))
    if tokens is not None:
        parts.append(event(chat_chunk(None, usage=usage(tokens))))
    return [*parts, DONE]


def chat_body(text: str = "Hello", model: str = "up", tokens: int = 3, **more: Any) -> bytes:
    """A whole chat completion."""
    message = {"role": "assistant", "content": text}
    body = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": usage(tokens),
        **more,
    }
    return json.dumps(body).encode()


def error_body(message: str, code: str | None = None) -> bytes:
    """An error object."""
    return json.dumps({"error": {"message": message, "type": "x", "code": code}}).encode()


async def polite(exchange: Exchange) -> None:
    """What was asked for: a stream or a whole answer, of the model that was named."""
    asked = exchange.json
    if not asked.get("stream"):
        await whole(chat_body(model=asked["model"]))(exchange)
        return
    chunks = [chat_chunk(text, model=asked["model"]) for text in ("Hel", "lo")]
    chunks.append(chat_chunk("", finish="stop", model=asked["model"]))
    if (asked.get("stream_options") or {}).get("include_usage"):
        chunks.append(chat_chunk(None, model=asked["model"], usage=usage(2)))
    await streamed([*map(event, chunks), DONE])(exchange)
