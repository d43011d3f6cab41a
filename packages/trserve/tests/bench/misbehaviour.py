"""Ways in which a server fails to answer, each asked for by the first word of the prompt."""

from __future__ import annotations

import asyncio

from packages.trserve.tests.bench.stream_server import Exchange, chunk, speak

REPLIES: dict[str, tuple[int, object]] = {
    "429": (429, {"error": {"message": "queue is full"}}),
    "500": (500, b"<html>oops"),
    "401": (401, {"error": {"message": "no such key"}}),
    "302": (302, b""),
    "html": (200, b"<html>"),
    "error200": (200, {"error": {"message": "no such model"}}),
    "whole": (
        200,
        {
            "choices": [{"message": {"content": "a b"}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 4, "completion_tokens": 2},
        },
    ),
}


async def half(exchange: Exchange) -> None:
    await begin(exchange)
    exchange.hang_up()


async def vanish(exchange: Exchange) -> None:
    exchange.hang_up()


async def no_http(exchange: Exchange) -> None:
    await exchange.send(b"SSH-2.0-OpenSSH\r\n\r\n")
    exchange.hang_up()


async def short(exchange: Exchange) -> None:
    await begin(exchange)
    await exchange.end(done=b"")


async def garbage(exchange: Exchange) -> None:
    await begin(exchange)
    await exchange.piece(b"data: {what\n\n")
    await exchange.end()


async def error_event(exchange: Exchange) -> None:
    await begin(exchange)
    await exchange.event({"error": {"message": "model died"}})
    await exchange.end()


async def silent(exchange: Exchange) -> None:
    await begin(exchange)
    await asyncio.Event().wait()


async def no_usage(exchange: Exchange) -> None:
    await begin(exchange)
    await exchange.event(chunk("a"))
    await exchange.event(chunk("a"))
    await exchange.event(chunk(finish="stop"))
    await exchange.end()


async def two_choices(exchange: Exchange) -> None:
    await exchange.head()
    for index in (0, 1, 0, 1):
        await exchange.event({"choices": [{"index": index, "delta": {"content": "a"}}]})
    await exchange.event(chunk(finish="stop"))
    await exchange.end()


async def begin(exchange: Exchange) -> None:
    await exchange.head()
    await exchange.event(chunk("a"))


STREAMS = {
    "half": half,
    "vanish": vanish,
    "nohttp": no_http,
    "short": short,
    "garbage": garbage,
    "event": error_event,
    "silent": silent,
    "nousage": no_usage,
    "two": two_choices,
}


async def misbehave(exchange: Exchange) -> None:
    """As the prompt says; well where it says nothing."""
    word = exchange.prompt.split()[0]
    if word in REPLIES:
        await exchange.whole(*REPLIES[word])
    else:
        await STREAMS.get(word, speak)(exchange)
