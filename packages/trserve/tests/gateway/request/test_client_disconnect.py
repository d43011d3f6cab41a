"""A client that leaves ends its request everywhere, at once (12)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import MutableMapping
from contextlib import suppress
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.support.gateway.gate import Gate
from tests.support.gateway.running_gateway import chat_request
from tests.support.gateway.upstream_answers import (
    always,
    chat_chunk,
    chat_events,
    chunk,
    chunked_head,
    event,
    hang,
    held,
    play,
    polite,
)
from tests.support.waiting import until
from trserve.gateway.http.generation_endpoint import GenerationEndpoint
from trserve.http.middleware.exchange import SCOPE_KEY

AT_ONCE_S = 5.0
"""Far below every timeout of these gateways, far above what it takes."""


@pytest.mark.parametrize("stream", [False, True])
def test_while_it_waits_for_the_first_byte(upstreams, gateways, stream: bool) -> None:
    (server,) = upstreams(hang)
    gateway = gateways([server])
    with gateway.sent(stream=stream):
        (exchange,) = server.wait_for(1)
        assert any(gateway.in_flight()["a"])
    assert exchange.left.wait(AT_ONCE_S)
    gateway.wait_until_idle()
    server.answer = polite
    assert gateway.chat().status_code == 200


def test_in_the_middle_of_a_stream(upstreams, gateways) -> None:
    first = b"".join(chat_events(["a", "b", "c"])[:3])
    (server,) = upstreams(play(chunked_head(), chunk(first), Gate()))
    gateway = gateways([server])
    with gateway.stream() as response:
        pieces = response.iter_bytes()
        assert next(pieces) == first
        until(lambda: gateway.in_flight()["a"][1] == 1)
    assert server.exchanges[0].left.wait(AT_ONCE_S)
    gateway.wait_until_idle()
    assert gateway.in_flight()["a"] == (0,) * 7
    assert gateway.metric("trgateway_tokens_total", instance="a") == 3


def test_in_the_middle_of_a_whole_answer(upstreams, gateways) -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n"
    (server,) = upstreams(play(head + b'{"choices":', Gate()))
    gateway = gateways([server])
    with gateway.sent():
        (exchange,) = server.wait_for(1)
        until(lambda: exchange.written > 0)
    assert exchange.left.wait(AT_ONCE_S)
    gateway.wait_until_idle()


def test_while_it_waits_for_its_turn(upstreams, gateways) -> None:
    """What waits for a permit never reaches the instance, and takes nobody's permit."""
    gate = Gate()
    (server,) = upstreams(held(gate, polite))
    gateway = gateways([server], each={"concurrency": 1})
    with gateway.sent() as first:
        server.wait_for(1)
        with gateway.sent():
            until(lambda: gateway.in_flight()["a"][0] == 2)
        until(lambda: gateway.in_flight()["a"][0] == 1)
        gate.open()
        assert first.recv(12) == b"HTTP/1.1 200"
    gateway.wait_until_idle()
    assert gateway.chat().status_code == 200
    assert len(server.exchanges) == 2


def test_while_it_waits_for_a_decision(upstreams, gateways) -> None:
    (server,) = upstreams(count=1)
    gateway = gateways([server])
    foresight, held_up = gateway.gateway.balancer._foresight, Gate()
    of = foresight.of

    async def slow(prompts):
        await held_up.passed()
        return await of(prompts)

    gateway.call(lambda: setattr(foresight, "of", slow))
    with gateway.sent():
        until(lambda: gateway.call(lambda: len(gateway.gateway.in_flight)) == 1)
    gateway.wait_until_idle()
    held_up.open()
    assert gateway.chat().status_code == 200
    assert len(server.exchanges) == 1
    assert gateway.gateway.stats.withdrawn == 1


def test_while_its_body_is_still_on_its_way(upstreams, gateways) -> None:
    (server,) = upstreams(count=1)
    gateway = gateways([server])
    with gateway.sent() as sock:
        server.wait_for(1)
        sock.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n{")
    gateway.wait_until_idle()
    assert gateway.chat().status_code == 200
    assert gateway.metric("trgateway_responses_total", status="500") == 0


def test_many_leave_at_any_moment(upstreams, gateways) -> None:
    """Sixty clients, some patient; whatever happened, nothing is left on the account."""

    async def slow_stream(exchange) -> None:
        await exchange.write(chunked_head())
        for number in range(20):
            await exchange.write(chunk(event(chat_chunk(str(number)))))
            await asyncio.sleep(0)
        await exchange.write(chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")

    servers = upstreams(slow_stream, hang, slow_stream)
    gateway = gateways(servers, each={"concurrency": 4})
    for number in range(60):
        with gateway.sent(stream=True, max_tokens=1 + number) as sock:
            if number % 3 == 0:
                sock.settimeout(0.01)
                with suppress(TimeoutError):
                    sock.recv(1 + 40 * number)
    gateway.wait_for_responses(60)
    gateway.wait_until_idle()
    until(lambda: all(server.open == 0 for server in servers))


@pytest.mark.parametrize("leaves", [False, True], ids=["reads no more", "leaves"])
def test_while_an_error_of_an_instances_is_written(upstreams, gateways, leaves: bool) -> None:
    """The last thing that a request does; it ends as any other whose client is gone."""
    own = {"access_log": True}
    (server,) = upstreams(always(503, b"no"))
    with capture_logs() as lines:
        gateway = gateways([server], server=own, timeouts={"client_s": 0.2})

        async def served() -> None:
            writing = asyncio.Event()
            body = json.dumps(chat_request()).encode()
            messages = iter([{"type": "http.request", "body": body}])

            async def receive() -> MutableMapping[str, Any]:
                if (message := next(messages, None)) is not None:
                    return message
                await (writing if leaves else asyncio.Event()).wait()
                return {"type": "http.disconnect"}

            async def send(message: MutableMapping[str, Any]) -> None:
                if message["type"] == "http.response.body":
                    writing.set()
                    await asyncio.Event().wait()

            headers = [(b"content-type", b"application/json")]
            scope = {"type": "http", "method": "POST", "headers": headers, "query_string": b""}
            endpoint = GenerationEndpoint(gateway.gateway, "chat", "/v1/chat/completions")
            await endpoint({**scope, SCOPE_KEY: "r"}, receive, send)

        asyncio.run_coroutine_threadsafe(served(), gateway.loop).result(20)
        gateway.wait_until_idle()
    (line,) = [line for line in lines if line["event"] == "request finished"]
    assert (line["status"], line["instance"]) == (499, "a")
