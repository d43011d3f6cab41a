"""A request is tried elsewhere only while its client has got nothing (21), and not for ever."""

from __future__ import annotations

import httpx
import pytest

from tests.support.gateway.gate import Gate
from tests.support.gateway.upstream_answers import (
    DONE,
    EVENTS,
    LAST_CHUNK,
    always,
    chat_body,
    chat_chunk,
    chat_events,
    chunk,
    chunked_head,
    error_body,
    event,
    held,
    in_turn,
    play,
    polite,
    raw,
    reset,
    response,
    streamed,
    whole,
)

FIRST = chat_events(["a", "b"])[0]
SERVER_ERROR = {"error": {"message": "out of memory", "type": "InternalServerError", "code": 500}}

BAD = {
    "closes": raw(b""),
    "resets": reset,
    "garbage": raw(b"SSH-2.0-OpenSSH_9.2\r\n"),
    "binary": raw(bytes(range(256)) * 4),
    "half a head": raw(b"HTTP/1.1 200 OK\r\ncontent-ty"),
    "half a body": raw(response(200, chat_body())[:-9]),
    "lying length": raw(response(200, chat_body(), headers=()).replace(b"length: ", b"length: 9")),
    "bad chunks": raw(chunked_head(kind="application/json") + b"zz\r\n"),
    "html": whole(b"<html>It works!</html>", kind="text/html"),
    "no type": raw(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"),
    "broken json": whole(chat_body()[:-3]),
    "json list": whole(b"[1]"),
    "empty json": whole(b""),
    "gzip": whole(b"\x1f\x8b\x08\x00", "content-encoding: gzip"),
    "500": always(500, error_body("boom")),
    "503": always(503, b"<h1>no</h1>", kind="text/html"),
    "429": always(429, error_body("slow down"), headers=("retry-after: 7",)),
    "408": always(408),
    "529": always(529, error_body("overloaded")),
}
BAD_STREAMS = {
    "closes": raw(chunked_head()),
    "empty": streamed([]),
    "half an event": raw(chunked_head() + chunk(FIRST[:-5])),
    "garbage": streamed([b"<html>" * 100]),
    "binary": streamed([bytes(range(256)) * 4]),
    "json": whole(b'{"error":"not streamed"}'[:-1]),
    "bad chunk": raw(chunked_head() + b"5\r\nda"),
    "error event": streamed([event(SERVER_ERROR), DONE]),
}


def two(upstreams, gateways, bad, **sections):
    """The bad one is the cheaper: it is asked first."""
    first, second = upstreams(bad, polite)
    models = [{"name": "small", "price_out": 1}, {"name": "dear", "price_out": 9}]
    gateway = gateways(
        [first, second],
        models=models,
        instances=[
            {"name": "a", "model": "small", "url": first.url, "metrics_path": None},
            {"name": "b", "model": "dear", "url": second.url, "metrics_path": None},
        ],
        weights="cost",
        **sections,
    )
    return first, second, gateway


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_used_is_tried_elsewhere(upstreams, gateways, name: str) -> None:
    first, second, gateway = two(upstreams, gateways, BAD[name])
    answer = gateway.chat(seed=1)
    assert answer.status_code == 200
    assert answer.json()["model"] == "dear"
    assert answer.headers["x-routebalance-instance"] == "b"
    assert "elsewhere" in answer.headers["x-routebalance-reason"]
    assert first.exchanges[0].json == {**second.exchanges[0].json, "model": "small"}
    assert gateway.metric("trgateway_retries_total") == 1
    gateway.wait_until_idle()


@pytest.mark.parametrize("name", BAD_STREAMS)
def test_so_is_a_stream_that_has_not_begun(upstreams, gateways, name: str) -> None:
    _, second, gateway = two(upstreams, gateways, BAD_STREAMS[name])
    answer = gateway.chat(stream=True)
    assert answer.status_code == 200
    assert answer.content.endswith(DONE)
    assert answer.headers["x-routebalance-instance"] == "b"
    assert len(second.exchanges) == 1
    gateway.wait_until_idle()


def test_an_instance_that_refuses_connections(upstreams, gateways, upstream_loop) -> None:
    first, _, gateway = two(upstreams, gateways, polite)
    upstream_loop.stop(first)
    assert gateway.chat().headers["x-routebalance-instance"] == "b"
    assert gateway.metric("trgateway_retries_total", reason="unreachable") == 1


BREAKS = {
    "closes": [],
    "half an event": [chunk(FIRST[:9])],
    "half an event, ended": [chunk(FIRST[:9]) + LAST_CHUNK],
    "ended without a word": [LAST_CHUNK],
    "half a chunk": [b"ff\r\ndata: {"],
}


@pytest.mark.parametrize("name", BREAKS)
def test_a_stream_that_has_begun_is_never_repeated(upstreams, gateways, name: str) -> None:
    """Its client gets whole events, then an error event, and [DONE]."""
    gate = Gate()
    broken = play(chunked_head() + chunk(FIRST), gate, *BREAKS[name])
    _, second, gateway = two(upstreams, gateways, broken)
    with gateway.stream() as answer:
        assert answer.status_code == 200
        pieces = answer.iter_bytes()
        assert next(pieces) == FIRST
        gate.open()
        error, done, nothing = b"".join(pieces).split(b"\n\n")
    assert b'"code":"upstream_broken"' in error
    assert (done, nothing) == (b"data: [DONE]", b"")
    assert not second.exchanges
    assert gateway.metric("trgateway_retries_total") == 0
    gateway.wait_until_idle()


def test_a_reset_in_the_middle(upstreams, gateways) -> None:
    gate = Gate()

    async def cut(exchange) -> None:
        await exchange.write(chunked_head() + chunk(FIRST))
        await gate.passed()
        exchange.reset()

    _, second, gateway = two(upstreams, gateways, cut)
    with gateway.stream() as answer:
        pieces = answer.iter_bytes()
        assert next(pieces) == FIRST
        gate.open()
        assert b"upstream_broken" in b"".join(pieces)
    assert not second.exchanges


def test_an_error_event_that_nobody_does_better_reaches_the_client(upstreams, gateways) -> None:
    failing = [event(SERVER_ERROR), DONE]
    servers = upstreams(streamed(failing), streamed(failing))
    answer = gateways(servers).chat(stream=True)
    assert answer.status_code == 200
    assert answer.content.startswith(event(SERVER_ERROR))
    assert [len(server.exchanges) for server in servers] == [1, 1]


@pytest.mark.parametrize(
    ("end", "opened"),
    [
        ([event(SERVER_ERROR), DONE], 1),
        ([event(SERVER_ERROR)], 1),
        ([], 1),
        ([event({"error": {"message": "no", "type": "BadRequestError", "code": 400}}), DONE], 0),
    ],
)
def test_streams_that_fail_after_their_first_token_open_the_breaker(
    upstreams, gateways, end: list[bytes], opened: int
) -> None:
    """And their clients get what the instance sent; a client's own error counts for nothing."""
    gates = [Gate(), Gate()]
    parts = [chunk(part) for part in end] + ([LAST_CHUNK] if end else [])
    begun = [play(chunked_head() + chunk(FIRST), gate, *parts) for gate in gates]
    gateway = gateways(upstreams(in_turn(*begun)), breaker={"failures": 2, "cooldown_s": 60})
    for gate in gates:
        with gateway.stream() as answer:
            pieces = answer.iter_bytes()
            assert next(pieces) == FIRST
            gate.open()
            rest = b"".join(pieces)
            assert rest.startswith(b"".join(end)) if end else b"upstream_broken" in rest
    gateway.wait_until_idle()
    assert gateway.metric("trgateway_breaker_opened_total", instance="a") == opened


def test_a_large_answer_that_breaks_off_is_seen_to(upstreams, gateways) -> None:
    """It had begun to be passed on: the client must not take it for whole."""
    large = response(200, chat_body("x" * 6_000_000))
    _, second, gateway = two(upstreams, gateways, raw(large[:-9]))
    with pytest.raises(httpx.RemoteProtocolError):
        gateway.chat()
    assert not second.exchanges
    gateway.wait_until_idle()


@pytest.mark.parametrize("line", [b"\n", b"\r\n"])
@pytest.mark.parametrize("end", [b"", b"data: [DONE]", b"data: [DONE]\n", b"data:[DONE]\n\n"])
def test_ends_of_complete_streams(upstreams, gateways, line: bytes, end: bytes) -> None:
    """Some servers leave out [DONE], or the blank line after it; a choice's end will do."""
    data = b"".join(chat_events(["x"], tokens=2)).removesuffix(DONE).replace(b"\n", line)
    data += end.replace(b"\n", line)
    gateway = gateways(upstreams(streamed([data])))
    answer = gateway.chat(stream=True)
    assert (answer.status_code, answer.content) == (200, data)
    assert gateway.metric("trgateway_tokens_total", instance="a") == 2


def test_a_text_that_says_done_is_no_end(upstreams, gateways) -> None:
    data = event(chat_chunk("data: [DONE]"))
    gateway = gateways(upstreams(streamed([data])))
    answer = gateway.chat(stream=True)
    assert answer.content.startswith(data)
    assert b"upstream_broken" in answer.content


def test_the_last_answer_is_the_clients(upstreams, gateways) -> None:
    """When nobody does better, the instance's own error with its headers."""
    refuse = always(429, error_body("slow down"), headers=("retry-after: 7",))
    servers = upstreams(refuse, refuse)
    gateway = gateways(servers)
    answer = gateway.chat()
    assert (answer.status_code, answer.content) == (429, error_body("slow down"))
    assert answer.headers["retry-after"] == "7"
    assert [len(server.exchanges) for server in servers] == [1, 1]
    gateway.wait_until_idle()


def test_every_try_is_elsewhere_and_they_are_counted(upstreams, gateways) -> None:
    servers = upstreams(*[always(500)] * 5)
    gateway = gateways(servers, retries={"attempts": 4})
    assert gateway.chat().status_code == 500
    assert sorted(len(server.exchanges) for server in servers) == [0, 1, 1, 1, 1]


def test_retries_are_budgeted(upstreams, gateways) -> None:
    """A pool that fails altogether gets its load and a bounded extra."""
    servers = upstreams(*[always(500)] * 3)
    gateway = gateways(servers, retries={"attempts": 3, "budget": 0.01})
    for _ in range(60):
        assert gateway.chat().status_code == 500
    retried = gateway.metric("trgateway_retries_total")
    assert retried >= 20  # what is saved up at the start
    assert retried < 60  # and no more than one a second, instead of two each
    assert sum(len(server.exchanges) for server in servers) == 60 + retried


def test_no_budget_means_no_retry(upstreams, gateways) -> None:
    servers = upstreams(*[always(500)] * 3)
    gateway = gateways(servers, retries={"attempts": 3, "budget": 0})
    for number in range(5):
        assert gateway.chat().status_code == 500
        assert sum(len(server.exchanges) for server in servers) == number + 1


def test_a_dead_kept_connection_is_tried_again_at_the_same_instance(upstreams, gateways) -> None:
    """There is no other, and its server may well live."""

    async def once(exchange) -> None:
        """Kept, says the answer; then it is closed."""
        exchange.keep_alive = False
        await exchange.write(response(200, chat_body(), headers=()))

    (server,) = upstreams(once)
    gateway = gateways([server])
    for number in range(5):
        assert gateway.chat().status_code == 200, number
    server.answer = in_turn(polite, raw(b""), polite)
    assert [gateway.chat().status_code for _ in range(2)] == [200, 200]
    gateway.wait_until_idle()


def test_nobody_is_left(upstreams, gateways) -> None:
    servers = upstreams(raw(b""), raw(b""))
    gateway = gateways(servers, retries={"attempts": 10})
    answer = gateway.chat()
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "upstream_broken")
    gateway.wait_until_idle()


def test_redirects_are_not_followed(upstreams, gateways) -> None:
    """Neither a key nor a client must go where an instance points to."""
    target, source = upstreams(count=2)
    source.answer = whole(b"", f"location: {target.url}/v1/chat/completions", status=307)
    gateway = gateways([source])
    answer = gateway.http.post("/v1/chat/completions", json={"model": "auto", "messages": [{}]})
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "upstream_garbage")
    assert "location" not in answer.headers
    assert not target.exchanges


def test_a_comment_is_no_token(upstreams, gateways) -> None:
    """Servers that queue send comments; they are passed on, the first token is still to come."""
    gate = Gate()
    ping = b": queued\n\n"
    rest = b"".join(chat_events(["x"]))
    (server,) = upstreams(
        play(chunked_head(kind=EVENTS), chunk(ping), gate, chunk(rest), b"0\r\n\r\n")
    )
    gateway = gateways([server])
    with gateway.stream() as answer:
        pieces = answer.iter_bytes()
        assert next(pieces) == ping
        assert gateway.in_flight()["a"][:2] == (1, 0)
        assert gateway.metric("trgateway_time_to_first_token_seconds_count") == 0
        gate.open()
        assert b"".join(pieces) == rest
    gateway.wait_until_idle()
    assert gateway.metric("trgateway_time_to_first_token_seconds_count") == 1


def test_held_answers_do_not_hold_others(upstreams, gateways) -> None:
    gate = Gate()
    first, _, gateway = two(upstreams, gateways, held(gate, always(500)))
    with gateway.sent() as sock:
        first.wait_for(1)
        gate.open()
        assert sock.recv(15) == b"HTTP/1.1 200 OK"
    gateway.wait_until_idle()
