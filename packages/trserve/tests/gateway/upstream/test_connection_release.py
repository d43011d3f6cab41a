"""A stream is over at [DONE], whatever its instance does with the connection afterwards."""

from __future__ import annotations

import pytest

from tests.support.gateway.gate import Gate
from tests.support.gateway.running_gateway import chat_request
from tests.support.gateway.scripted_upstream import Exchange
from tests.support.gateway.upstream_answers import (
    chat_events,
    chunk,
    chunked_head,
    play,
    streamed,
)
from tests.support.waiting import until
from trserve.gateway.access.keys_file import new_key

WHOLE = b"".join(chat_events(["a", "b"], tokens=2))
BREAKER = {"failures": 1, "cooldown_s": 60}


LITTLE_S, LONG_S = 0.1, 10.0
"""How long a connection that might be used again is waited for."""


def test_the_client_has_its_end_though_the_connection_stays_open(upstreams, gateways) -> None:
    (server,) = upstreams(play(chunked_head(), chunk(WHOLE), Gate()))
    gateway = gateways([server], read_on_s=LITTLE_S, breaker=BREAKER, timeouts={"idle_s": 0.05})
    for _ in range(2):
        assert gateway.chat(stream=True).content == WHOLE
    gateway.wait_until_idle()
    assert all(exchange.left.wait(10) for exchange in server.exchanges)
    assert gateway.instances()["a"]["breaker"] == "closed"
    assert gateway.metric("trgateway_tokens_total") == 4


@pytest.mark.parametrize("then", [b"", b"ff\r\nda", b"zz\r\n", chunk(b"data: more\n\n")])
def test_what_breaks_off_afterwards_is_no_fault(upstreams, gateways, then: bytes) -> None:
    gate = Gate()
    (server,) = upstreams(play(chunked_head(), chunk(WHOLE), gate, then))
    gateway = gateways([server], read_on_s=LITTLE_S, breaker=BREAKER)
    with gateway.stream() as answer:
        assert answer.read() == WHOLE
        gate.open()
    gateway.wait_until_idle()
    assert gateway.instances()["a"]["breaker"] == "closed"
    assert gateway.metric("trgateway_retries_total") == 0


def test_the_connection_is_used_again(upstreams, gateways) -> None:
    """Also where the end of the body comes later than [DONE]."""
    ports: set[int] = set()
    late = Gate()

    async def script(exchange: Exchange) -> None:
        ports.add(exchange._writer.get_extra_info("peername")[1])
        if len(server.exchanges) == 1:
            await exchange.write(chunked_head() + chunk(WHOLE))
            await late.passed()
            await exchange.write(b"0\r\n\r\n")
        else:
            await streamed(chat_events(["a", "b"], tokens=2))(exchange)

    (server,) = upstreams(script)
    gateway = gateways([server], read_on_s=LONG_S)
    assert gateway.chat(stream=True).content == WHOLE
    late.open()
    for _ in range(4):
        until(lambda: not gateway.call(lambda: list(gateway.gateway.connections.reading_on)))
        assert gateway.chat(stream=True).content == WHOLE
    assert len(server.exchanges) == 5
    assert len(ports) == 1


def test_nothing_of_it_is_held_meanwhile(upstreams, gateways, tmp_path) -> None:
    """A client that asks one after the other never has two under way."""
    gate = Gate()
    (server,) = upstreams(play(chunked_head(), chunk(WHOLE), gate))
    key, line = new_key("alice")
    keys = tmp_path / "keys.yaml"
    keys.write_text(line[:-1] + ", concurrency: 1}\n")
    own = {"admin_key": "admin", "keys_file": str(keys)}
    gateway = gateways([server], read_on_s=LONG_S, each={"concurrency": 1}, server=own)
    for _ in range(3):
        answer = gateway.http.post(
            "/v1/chat/completions",
            json=chat_request(stream=True),
            headers={"authorization": f"Bearer {key}"},
        )
        assert (answer.status_code, answer.content) == (200, WHOLE)
    assert len(server.exchanges) == 3
    gate.open()


def test_a_client_that_leaves_after_the_end_interrupts_nothing(upstreams, gateways) -> None:
    """Its request is counted as what it was: answered."""
    (server,) = upstreams(play(chunked_head(), chunk(WHOLE), Gate()))
    gateway = gateways([server], read_on_s=LITTLE_S, breaker=BREAKER)
    with gateway.sent(stream=True) as sock:
        received = b""
        while b"[DONE]" not in received:
            received += sock.recv(65536)
    gateway.wait_until_idle()
    until(lambda: gateway.metric("trgateway_responses_total", status="200") >= 1)
    assert gateway.metric("trgateway_responses_total", status="499") == 0
    assert gateway.instances()["a"]["breaker"] == "closed"
