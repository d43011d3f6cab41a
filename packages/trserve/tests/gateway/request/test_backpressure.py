"""A client that reads slowly slows down its own stream, and nothing else."""

from __future__ import annotations

import itertools
import math
import socket
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from tests.support.gateway.gate import Gate
from tests.support.gateway.running_gateway import chat_request, request_bytes
from tests.support.gateway.upstream_answers import (
    DONE,
    EVENTS,
    LAST_CHUNK,
    chat_chunk,
    chunk,
    chunked_head,
    event,
    play,
    polite,
    response,
)
from tests.support.waiting import until
from trserve.gateway.request.attempt import Attempt
from trserve.gateway.request.client_response import ClientResponse
from trserve.gateway.request.interruptible_task import InterruptibleTask
from trserve.gateway.upstream.stream_progress import StreamProgress

MOST_BYTES = 40 << 20
"""Of four sockets' kernel buffers; without back-pressure there is no limit at all."""
STILL = 300
"""Looks at it, some milliseconds apart, that find it still: longer than the idle timeout here."""


async def endless(exchange) -> None:
    if not exchange.json.get("stream"):
        await polite(exchange)
        return
    await exchange.write(chunked_head())
    block = chunk(event(chat_chunk("x" * 16_000)))
    while True:
        await exchange.write(block)


async def huge(exchange) -> None:
    """No stream, and larger than what is held to be looked at."""
    await exchange.write(response(200, b"", headers=()).replace(b"length: 0", b"length: 999999999"))
    while True:
        await exchange.write(b"x" * 16_000)


@contextmanager
def slow_reader(gateway, **fields):
    """A client with little room, which reads nothing by itself."""
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        sock.settimeout(20)
        sock.connect(("127.0.0.1", httpx.URL(gateway.url).port))
        sock.sendall(request_bytes(chat_request(**fields)))
        yield sock


def wait_until_still(exchange) -> int:
    """How many bytes the upstream could write until nobody took more."""
    seen: list[int] = []

    def still() -> bool:
        seen.append(exchange.written)
        assert seen[-1] < MOST_BYTES
        return len(seen) > STILL and len(set(seen[-STILL:])) == 1

    until(still)
    return seen[-1]


@pytest.mark.parametrize(("script", "fields"), [(endless, {"stream": True}), (huge, {})])
def test_the_instance_is_read_as_fast_as_the_client_reads(
    upstreams, gateways, script, fields
) -> None:
    (server,) = upstreams(script)
    breaker = {"failures": 1, "cooldown_s": 60}
    gateway = gateways([server], timeouts={"first_byte_s": 15, "idle_s": 0.2}, breaker=breaker)
    with slow_reader(gateway, **fields) as sock:
        (exchange,) = server.wait_for(1)
        written = wait_until_still(exchange)
        assert written > 100_000
        if script is endless:  # others, at the same instance, are served meanwhile
            assert gateway.chat().status_code == 200
        assert gateway.instances()["a"]["breaker"] == "closed"  # the silence is not its own
        for _ in itertools.takewhile(lambda _: exchange.written <= written, range(5000)):
            sock.recv(65536)
        assert exchange.written > written  # it goes on
    assert exchange.left.wait(5)
    gateway.wait_until_idle()


def test_a_client_that_reads_no_more_is_given_up_in_time(upstreams, gateways) -> None:
    """By the request's deadline; its place is free again."""
    (server,) = upstreams(endless)
    own = {"admin_key": "admin", "request_timeout": 1}
    gateway = gateways([server], server=own, each={"concurrency": 1})
    with slow_reader(gateway, stream=True):
        server.wait_for(1)
        assert server.exchanges[0].left.wait(10)
        gateway.wait_until_idle()
        assert gateway.chat().status_code == 200


IMPATIENT = {"first_byte_s": 15, "whole_s": 15, "idle_s": 0.2, "client_s": 0.5}


def assert_let_go(gateway) -> None:
    """And its instance not blamed, by a breaker that opens at the first failure."""
    gateway.wait_until_idle()
    (report,) = gateway.instances().values()
    assert (report["breaker"], report["state"]) == ("closed", "up")


@pytest.mark.parametrize(("script", "fields"), [(endless, {"stream": True}), (huge, {})])
def test_a_client_that_reads_nothing_is_let_go(upstreams, gateways, script, fields) -> None:
    """In the middle of a stream, and of a large body."""
    (server,) = upstreams(script)
    breaker = {"failures": 1, "cooldown_s": 60}
    gateway = gateways([server], timeouts=IMPATIENT, breaker=breaker)
    with slow_reader(gateway, **fields):
        server.wait_for(1)
        assert_let_go(gateway)


def test_so_is_one_that_does_not_read_the_end(upstreams, gateways) -> None:
    """Before it comes an event that no socket can hold, so that [DONE] has to wait."""
    gate = Gate()
    large = chunk(event(chat_chunk("x" * 7_900_000)))
    (server,) = upstreams(play(chunked_head(), large, gate, chunk(DONE) + LAST_CHUNK))
    breaker = {"failures": 1, "cooldown_s": 60}
    gateway = gateways([server], timeouts={**IMPATIENT, "idle_s": 90}, breaker=breaker)
    with slow_reader(gateway, stream=True):
        until(lambda: gateway.in_flight()["a"][5] == 1)
        gate.open()
        assert_let_go(gateway)


class Clock:
    """Instead of the event loop: it stands still but for what the test takes of it."""

    def __init__(self) -> None:
        self.now = 0.0

    def time(self) -> float:
        return self.now


@pytest.mark.asyncio
async def test_seconds_that_the_client_did_not_read_are_not_the_instances() -> None:
    """Each event takes the instance one second and the client a hundred."""
    clock, sent = Clock(), []

    async def send(message) -> None:
        clock.now += 100.0
        sent.append(message)

    async def iter_any():
        for part in (*map(event, map(chat_chunk, "abcd")), DONE):
            clock.now += 1.0
            yield part

    task = InterruptibleTask(0.0, math.inf, stream=True)
    progress = StreamProgress(lambda tokens: None)
    attempt = Attempt("a", ClientResponse(send), task, progress, [])
    attempt._loop = clock  # type: ignore[assignment]
    response: Any = SimpleNamespace(
        status=200,
        headers={"content-type": EVENTS},
        raw_headers=((b"content-type", EVENTS.encode()),),
        content=SimpleNamespace(iter_any=iter_any),
    )
    await attempt._pass_on(response)
    assert progress.tokens == 5
    assert len(sent) == 1 + 5
    # the head and the first four blocks; after the last one nothing is left to wait for
    assert progress.stalled_s == 5 * 100.0
