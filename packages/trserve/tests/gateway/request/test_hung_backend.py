"""An instance that hangs, or is slow, stalls nobody else; it is given up in time and comes back
when it is well (22).
"""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.gateway.gate import Gate
from tests.support.gateway.upstream_answers import (
    DONE,
    always,
    chat_chunk,
    chat_events,
    chunk,
    chunked_head,
    dribble,
    error_body,
    event,
    hang,
    held,
    play,
    polite,
)
from tests.support.waiting import until

FIRST = chat_events(["a"])[0]
SOON = {"connect_s": 0.3, "first_byte_s": 0.3, "whole_s": 0.3, "idle_s": 0.3}
LATE = {"connect_s": 15, "first_byte_s": 15, "whole_s": 15, "idle_s": 15}


def test_others_are_served_meanwhile(upstreams, gateways) -> None:
    hung, well = upstreams(hang, polite)
    gateway = gateways([hung, well], timeouts=LATE)
    with gateway.sent(), gateway.sent(), gateway.sent():
        hung.wait_for(1)
        until(lambda: len(hung.exchanges) + len(well.exchanges) == 3)
        for _ in range(20):
            answer = gateway.chat()
            assert answer.headers["x-routebalance-instance"] == "b"
        assert gateway.http.get("/health").status_code == 200


@pytest.mark.parametrize(
    ("silent", "stream"),
    [
        (hang, False),
        (hang, True),
        (play(b"HTTP/1.1 200 OK\r\n", Gate()), True),
        (play(chunked_head(), Gate()), True),
        (play(chunked_head() + chunk(FIRST[:-4]), Gate()), True),
        (play(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{", Gate()), False),
    ],
)
def test_no_first_byte_in_time(upstreams, gateways, silent, stream: bool) -> None:
    """It is tried elsewhere; if there is nobody else, the client hears of the silence."""
    first, second = upstreams(silent, polite)
    gateway = gateways([first, second], timeouts={**LATE, "first_byte_s": 0.4, "whole_s": 0.4})
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: gateway.chat(stream=stream), range(4)))
    assert {answer.headers["x-routebalance-instance"] for answer in answers} == {"b"}
    assert first.exchanges
    assert all(exchange.left.wait(5) for exchange in first.exchanges)
    second.answer = silent
    answer = gateway.chat(stream=stream)
    assert (answer.status_code, answer.json()["error"]["code"]) == (504, "upstream_timeout")
    gateway.wait_until_idle()


@pytest.mark.parametrize(
    "then", [b"", chunk(FIRST[:5]), b"ff\r\nda", b"zz\r\n"], ids=["nothing", "half", "cut", "bad"]
)
def test_silence_in_the_middle_of_a_stream(upstreams, gateways, then: bytes) -> None:
    """The HTTP library doesn't tell of a chunk that is none: that looks like silence, too."""
    gate = Gate()
    (server,) = upstreams(play(chunked_head() + chunk(FIRST), gate, then, Gate()))
    gateway = gateways([server], timeouts={**LATE, "idle_s": 0.2}, breaker={"failures": 1})
    with gateway.stream() as answer:
        pieces = answer.iter_bytes()
        assert next(pieces) == FIRST
        gate.open()
        error, *done = b"".join(pieces).split(b"\n\n")
    assert b"upstream_timeout" in error
    assert done == [b"data: [DONE]", b""]
    assert server.exchanges[0].left.wait(5)
    assert gateway.instances()["a"]["breaker"] == "open"
    gateway.wait_until_idle()


def test_a_slow_stream_is_no_silent_one(upstreams, gateways) -> None:
    """Longer than every timeout in all, never silent for so long."""

    async def slow(exchange) -> None:
        await exchange.write(chunked_head())
        for number in range(12):
            await exchange.write(chunk(event(chat_chunk(str(number)))))
            await asyncio.sleep(0.05)
        await exchange.write(chunk(DONE) + b"0\r\n\r\n")

    (server,) = upstreams(slow)
    gateway = gateways([server], timeouts=SOON)
    answer = gateway.chat(stream=True)
    assert answer.content.count(b"data:") == 13
    assert answer.content.endswith(DONE)


def test_an_answer_that_is_no_stream_has_a_time_of_its_own(upstreams, gateways) -> None:
    """Longer than a first byte's, as it is written before it comes; it may be long: no fault."""
    (server,) = upstreams(hang)
    timeouts = {**LATE, "first_byte_s": 0.2, "whole_s": 0.6}
    gateway = gateways([server], timeouts=timeouts, breaker={"failures": 1, "cooldown_s": 60})
    whole = gateway.chat()
    assert (whole.status_code, whole.json()["error"]["code"]) == (504, "upstream_timeout")
    assert gateway.instances()["a"]["breaker"] == "closed"
    streamed = gateway.chat(stream=True)
    assert (streamed.status_code, streamed.json()["error"]["code"]) == (504, "upstream_timeout")
    assert gateway.instances()["a"]["breaker"] == "open"
    assert whole.elapsed > streamed.elapsed
    gateway.wait_until_idle()


def test_the_whole_request_has_its_time(upstreams, gateways) -> None:
    """And an instance is not to blame for it."""
    (server,) = upstreams(hang)
    own = {"admin_key": "admin", "request_timeout": 0.3}
    gateway = gateways([server], timeouts=LATE, server=own, breaker={"failures": 1})
    answer = gateway.chat()
    assert (answer.status_code, answer.json()["error"]["code"]) == (504, "timeout")
    assert len(server.exchanges) == 1
    server.answer = play(chunked_head() + chunk(FIRST), Gate())
    with gateway.stream() as answer:
        assert b'"code":"timeout"' in answer.read().removeprefix(FIRST)
    assert gateway.instances()["a"]["breaker"] == "closed"
    gateway.wait_until_idle()


def test_time_runs_out_while_it_waits_for_its_turn(upstreams, gateways) -> None:
    (server,) = upstreams(hang)
    own = {"request_timeout": 0.3}
    gateway = gateways([server], timeouts=LATE, server=own, each={"concurrency": 1})
    with gateway.sent():
        server.wait_for(1)
        answer = gateway.chat()
        assert (answer.status_code, answer.json()["error"]["code"]) == (504, "timeout")
    gateway.wait_until_idle()


def test_connections_that_nobody_takes(upstreams, gateways) -> None:
    """A full backlog drops them: that is given up after connect_s."""
    (well,) = upstreams(count=1)
    with socket.create_server(("127.0.0.1", 0), backlog=0) as deaf:
        fillers = []
        for _ in range(4):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(deaf.getsockname())
            fillers.append(filler)
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        instances = [
            {"name": "a", "model": "small", "url": url, "metrics_path": None},
            {"name": "b", "model": "small", "url": well.url, "metrics_path": None},
        ]
        gateway = gateways([], instances=instances, timeouts={**LATE, "connect_s": 0.2})
        names = [gateway.chat().headers["x-routebalance-instance"] for _ in range(4)]
        assert set(names) == {"b"}
        assert gateway.metric("trgateway_retries_total", reason="unreachable") >= 1
        for filler in fillers:
            filler.close()


def test_the_breaker_opens_probes_and_closes(upstreams, gateways) -> None:
    bad, well = upstreams(always(500, error_body("boom")), polite)
    gateway = gateways([bad, well], breaker={"failures": 3, "cooldown_s": 1})
    for _ in range(12):
        assert gateway.chat().status_code == 200
        if gateway.instances()["a"]["breaker"] == "open":
            break
    report = gateway.instances()["a"]
    assert (report["breaker"], report["state"]) == ("open", "down")
    assert len(bad.exchanges) == 3
    assert gateway.metric("trgateway_breaker_opened_total", instance="a") == 1
    assert gateway.metric("trgateway_instance_up", instance="a") == 0
    assert gateway.http.get("/health").json()["status"] == "degraded"

    probe = Gate()
    bad.answer = held(probe, polite)
    until(lambda: gateway.instances()["a"]["breaker"] == "half-open")
    with ThreadPoolExecutor(8) as pool:
        answers = [pool.submit(gateway.chat) for _ in range(8)]
        bad.wait_for(4)
        until(lambda: sum(answer.done() for answer in answers) == 7)
        assert len(bad.exchanges) == 4  # the probe alone
        probe.open()
        assert all(answer.result().status_code == 200 for answer in answers)
    report = gateway.instances()["a"]
    assert (report["breaker"], report["state"]) == ("closed", "up")
    gateway.wait_until_idle()


def test_a_pool_that_is_down_says_so_at_once(upstreams, gateways) -> None:
    (bad,) = upstreams(always(500))
    gateway = gateways([bad], breaker={"failures": 1, "cooldown_s": 60})
    assert gateway.chat().status_code == 500
    answer = gateway.chat()
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "no_instance")
    assert answer.headers["retry-after"]
    assert len(bad.exchanges) == 1
    assert gateway.http.get("/health").status_code == 503


@pytest.mark.parametrize("ill", [hang, always(503), dribble], ids=["hangs", "503", "dribbles"])
def test_health_checks_find_it_and_find_it_well_again(upstreams, gateways, ill) -> None:
    first, second = upstreams(count=2)
    checks = {"health_s": 0.02, "health_timeout_s": 0.1}
    gateway = gateways([first, second], checks=checks)
    first.pages["/health"] = ill
    if ill is dribble:  # its head says 200: that is enough
        assert gateway.instances()["a"]["state"] == "up"
        return
    until(lambda: gateway.instances()["a"]["state"] == "down")
    assert "/health: " in gateway.instances()["a"]["why"]
    answers = [gateway.chat().headers["x-routebalance-instance"] for _ in range(4)]
    assert set(answers) == {"b"}
    first.pages["/health"] = always(200)
    until(lambda: gateway.instances()["a"]["state"] == "up")
    assert "a" in {gateway.chat().headers["x-routebalance-instance"] for _ in range(4)}
