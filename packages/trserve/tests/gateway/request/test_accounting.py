"""What the gateway knows of its own load is exact: kept to an answer's last byte, and gone after
it, however it ended (23).
"""

from __future__ import annotations

import socket
from contextlib import ExitStack

import httpx
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from tests.support.gateway.gate import Gate
from tests.support.gateway.running_gateway import chat_request, request_bytes
from tests.support.gateway.scripted_upstream import Exchange
from tests.support.gateway.upstream_answers import (
    DONE,
    LAST_CHUNK,
    always,
    chat_body,
    chat_chunk,
    chat_events,
    chunk,
    chunked_head,
    event,
    hang,
    held,
    play,
    polite,
    raw,
    reset,
    response,
    streamed,
    usage,
    whole,
)
from tests.support.waiting import until

# the gateway's thread draws random numbers while Hypothesis looks on
pytestmark = pytest.mark.filterwarnings("ignore:Do not use the `random` module")


def test_a_load_ends_with_the_body_not_with_the_head(upstreams, gateways) -> None:
    """Long answers spread, though each has had its head and first token."""
    gate = Gate()
    first, rest = chunk(chat_events(["a"])[0]), chunk(DONE) + LAST_CHUNK
    servers = upstreams(*[play(chunked_head(), first, gate, rest) for _ in range(4)])
    gateway = gateways(servers)
    with ExitStack() as stack:
        for number in range(12):
            answer = stack.enter_context(gateway.stream(max_tokens=100 + number))
            stack.enter_context(_Pieces(answer))
        assert [len(server.exchanges) for server in servers] == [3] * 4
        accounts = gateway.in_flight()
        assert [(account[0], account[1]) for account in accounts.values()] == [(0, 3)] * 4
        assert gateway.metric("trgateway_instance_running") == 12
        gate.open()
    gateway.wait_until_idle()
    assert gateway.metric("trgateway_instance_running") == 0
    assert gateway.metric("trgateway_instance_pending_tokens") == 0


class _Pieces:
    """A stream of which the first piece has been read; the rest is at the end."""

    def __init__(self, answer: httpx.Response) -> None:
        self._pieces = answer.iter_bytes()
        next(self._pieces)

    def __enter__(self) -> _Pieces:
        return self

    def __exit__(self, *error: object) -> None:
        for _ in self._pieces:
            pass


def test_a_whole_answer_counts_until_it_is_there(upstreams, gateways) -> None:
    gate = Gate()
    data = response(200, chat_body())
    slow = play(data[:-20], gate, data[-20:])
    servers = upstreams(slow, slow)
    gateway = gateways(servers)
    with gateway.sent() as one, gateway.sent() as other:
        until(lambda: [len(server.exchanges) for server in servers] == [1, 1])
        assert [account[0] for account in gateway.in_flight().values()] == [1, 1]
        gate.open()
        assert one.recv(12) == other.recv(12) == b"HTTP/1.1 200"
    gateway.wait_until_idle()


def test_tokens_are_taken_off_as_they_come(upstreams, gateways) -> None:
    gate = Gate()
    many = b"".join(event(chat_chunk("x")) for _ in range(48))
    (server,) = upstreams(play(chunked_head(), chunk(many), gate, chunk(DONE) + LAST_CHUNK))
    gateway = gateways([server], models=[{"name": "small", "length": 64}])
    with gateway.stream() as answer:
        pieces = answer.iter_bytes()
        next(pieces)
        until(lambda: gateway.in_flight()["a"][3] == 64 - 48)
        gate.open()
        for _ in pieces:
            pass
    gateway.wait_until_idle()


ENDINGS = {
    "polite": polite,
    "status 400": whole(b'{"error":{}}', status=400),
    "status 500": always(500),
    "status 429": always(429),
    "reset": reset,
    "closed": raw(b""),
    "garbage": raw(b"nonsense\r\n\r\n"),
    "html": whole(b"<html>", kind="text/html"),
    "silent": hang,
    "half an event": raw(chunked_head() + chunk(b"data: {")),
    "cut": raw(chunked_head() + chunk(event(chat_chunk("x"))) + b"ff\r\n"),
    "error event": streamed([event(chat_chunk("x")), event({"error": {"message": "no"}})]),
    "usage": streamed([event(chat_chunk("x")), event(chat_chunk(None, usage=usage(999))), DONE]),
    "silent stream": play(chunked_head(), chunk(event(chat_chunk("x"))), Gate()),
}


@pytest.mark.parametrize("concurrency", [None, 2])
def test_any_mix_of_endings_leaves_nothing(upstreams, gateways, concurrency: int | None) -> None:
    """Requests end in every way, held and let go in any order, their clients leaving or not."""
    gates: dict[str, Gate] = {}

    async def as_told(exchange: Exchange) -> None:
        """The client says how it is to end; a retry goes well."""
        key, ending = exchange.headers["x-key"], exchange.headers["x-ending"]
        if key in gates:
            await held(gates[key], ENDINGS[ending])(exchange)
        else:
            await polite(exchange)

    servers = upstreams(as_told, as_told, as_told)
    gateway = gateways(
        servers,
        each={"concurrency": concurrency},
        timeouts={"first_byte_s": 0.4, "whole_s": 0.4, "idle_s": 0.2},
        breaker={"failures": 4, "cooldown_s": 0.05},
    )

    class Machine(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.open: list[tuple[str, socket.socket]] = []

        @rule(ending=st.sampled_from(sorted(ENDINGS)), stream=st.booleans())
        def send(self, ending: str, stream: bool) -> None:
            key = str(len(gates))
            gates[key] = Gate()
            sock = socket.create_connection(("127.0.0.1", httpx.URL(gateway.url).port), 20)
            head, body = request_bytes(chat_request(stream=stream)).split(b"\r\n\r\n", 1)
            told = f"\r\nx-key: {key}\r\nx-ending: {ending}\r\n\r\n".encode()
            sock.sendall(head + told + body)
            self.open.append((key, sock))

        @precondition(lambda self: self.open)
        @rule(data=st.data())
        def go_on(self, data: st.DataObject) -> None:
            key, _ = data.draw(st.sampled_from(self.open))
            gates[key].open()

        @precondition(lambda self: self.open)
        @rule(data=st.data())
        def leave(self, data: st.DataObject) -> None:
            at = data.draw(st.integers(0, len(self.open) - 1))
            self.open.pop(at)[1].close()

        @rule()
        def look(self) -> None:
            accounts = gateway.in_flight().values()
            assert all(number >= 0 for account in accounts for number in account)
            under_way = gateway.call(lambda: len(gateway.gateway.in_flight))
            assert under_way <= len(gates)

        def teardown(self) -> None:
            for key, _ in self.open:
                gates[key].open()
            for _, sock in self.open:
                sock.settimeout(20)
                assert sock.recv(12)  # everyone is answered
                sock.close()
            gateway.wait_for_responses(len(gates))
            gateway.wait_until_idle()

    run_state_machine_as_test(
        Machine, settings=settings(max_examples=10, stateful_step_count=14, deadline=None)
    )
    assert len(gates) > 10
