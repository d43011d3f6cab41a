"""Whose fault it is: clients' mistakes are named, passed on, and never held against an instance."""

from __future__ import annotations

import json
import socket
from typing import Any

import httpx
import pytest

from tests.support.gateway.running_gateway import (
    HI,
    RunningGateway,
    chat_request,
    request_bytes,
)
from tests.support.gateway.upstream_answers import (
    always,
    chat_body,
    error_body,
    event,
    in_turn,
    polite,
    streamed,
    whole,
)
from trserve.http.errors import ApiError

TOO_LONG = error_body("This model's maximum context length is 512.", "context_length_exceeded")


@pytest.mark.parametrize("status", [400, 403, 409, 413, 422])
@pytest.mark.parametrize("stream", [False, True])
def test_an_instances_4xx_is_the_clients(upstreams, gateways, status: int, stream: bool) -> None:
    """Status, body and headers come as they are, streamed or not (19); nothing counts against the
    instance (16), and nobody else is asked.
    """
    body = error_body("temperature must be below 2")
    servers = upstreams(*[whole(body, "x-detail: 7", status=status)] * 2)
    gateway = gateways(servers, breaker={"failures": 2, "cooldown_s": 60})
    for number in range(6):
        answer = gateway.chat(stream=stream)
        assert (answer.status_code, answer.content) == (status, body)
        assert answer.headers["x-detail"] == "7"
        assert answer.headers["content-type"] == "application/json"
        assert sum(len(server.exchanges) for server in servers) == number + 1
    assert {each["breaker"] for each in gateway.instances().values()} == {"closed"}
    assert {each["state"] for each in gateway.instances().values()} == {"up"}
    gateway.wait_until_idle()


@pytest.mark.parametrize("stream", [False, True])
def test_a_404_is_the_gateways(upstreams, gateways, stream: bool) -> None:
    """It named the model: another instance is asked, and this one is found to fail."""
    body = error_body("no such model")
    servers = upstreams(whole(body, status=404), polite)
    gateway = gateways(servers, breaker={"failures": 1, "cooldown_s": 60})
    for _ in range(4):
        assert gateway.chat(stream=stream).headers["x-routebalance-instance"] == "b"
    assert gateway.instances()["a"]["breaker"] == "open"
    servers[1].answer = whole(body, status=404)
    answer = gateway.chat(stream=stream)
    assert (answer.status_code, answer.content) == (404, body)


@pytest.mark.parametrize("status", [401, 407])
def test_a_key_that_an_instance_refuses_is_the_gateways(upstreams, gateways, status: int) -> None:
    """A client that hears 401 looks for its own key."""
    gateway = gateways(upstreams(whole(error_body("wrong key"), status=status)))
    answer = gateway.chat()
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "upstream_unauthorized")


def test_a_400_as_a_stream_of_events_stays_a_400(upstreams, gateways) -> None:
    data = event({"error": {"message": "no", "code": 400}})

    async def refuse(exchange) -> None:
        head = b"HTTP/1.1 400 Bad\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n"
        await exchange.write(head % len(data) + data)

    gateway = gateways(upstreams(refuse))
    answer = gateway.chat(stream=True)
    assert (answer.status_code, answer.content) == (400, data)


def test_an_error_in_the_middle_of_a_stream_is_passed_on_once(upstreams, gateways) -> None:
    data = [event({"choices": []}), event({"error": {"message": "out of memory"}})]
    gateway = gateways(upstreams(streamed(data)))
    with gateway.stream() as answer:
        assert answer.read() == b"".join(data)


@pytest.fixture
def narrow_and_wide(upstreams, gateways):
    narrow, wide = upstreams(count=2)
    gateway = gateways(
        [narrow, wide],
        models=[{"name": "narrow", "context": 512}, {"name": "wide", "context": 8192}],
        instances=[
            {"name": "n", "model": "narrow", "url": narrow.url},
            {"name": "w", "model": "wide", "url": wide.url},
        ],
        weights={"quality": 0, "cost": 1, "latency": 0},
    )
    return narrow, wide, gateway


@pytest.mark.parametrize(
    "fields",
    [
        {"messages": [{"role": "user", "content": "word " * 1000}]},
        {"messages": [{"role": "user", "content": "字" * 800}]},
        {"messages": [*HI, {"role": "assistant", "content": "word " * 600}, *HI]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "word " * 900}]}]},
        {"max_tokens": 600},
        {"max_completion_tokens": 600},
    ],
)
def test_what_is_too_long_for_one_goes_to_another(narrow_and_wide, fields: dict[str, Any]) -> None:
    """(17)"""
    narrow, _, gateway = narrow_and_wide
    for _ in range(5):
        assert gateway.chat(**fields).headers["x-routebalance-instance"] == "w"
    assert not narrow.exchanges
    shown = gateway.http.post("/v1/route", json={"model": "auto", "messages": HI, **fields}).json()
    (why,) = (each["why_not"] for each in shown["candidates"] if each["instance"] == "n")
    assert "do not fit its 512" in why


def test_one_that_finds_it_too_long_is_not_the_last_word(narrow_and_wide) -> None:
    """The gateway's estimate was too low; the instance knows better, and another has room."""
    narrow, wide, gateway = narrow_and_wide
    narrow.answer = wide.answer = in_turn(always(400, TOO_LONG), polite)
    tried = [gateway.chat(max_tokens=1) for _ in range(6)]
    assert {answer.status_code for answer in tried} <= {200, 400}
    narrow.answer, wide.answer = always(400, TOO_LONG), polite
    answers = [gateway.chat(max_tokens=1) for _ in range(6)]
    assert {answer.headers["x-routebalance-instance"] for answer in answers} == {"w"}
    assert {each["breaker"] for each in gateway.instances().values()} == {"closed"}


def test_too_long_for_the_widest_is_the_clients(narrow_and_wide) -> None:
    narrow, wide, gateway = narrow_and_wide
    wide.answer = whole(TOO_LONG, status=400)
    answer = gateway.chat(messages=[{"role": "user", "content": "word " * 100_000}])
    assert (answer.status_code, answer.content) == (400, TOO_LONG)
    assert (len(narrow.exchanges), len(wide.exchanges)) == (0, 1)


BAD: list[tuple[object, str | None, str]] = [
    (b"", None, "invalid_json"),
    (b"{", None, "invalid_json"),
    (b'{"model":"auto","messages":[]', None, "invalid_json"),
    (b'{"model":"auto","x":\xff}', None, "invalid_json"),
    (b'{"model":"auto","x":"\\ud800"}', None, "invalid_json"),
    (b'{"a":' * 20_000, None, "invalid_json"),
    (b'{"model":"auto","messages":' + b"[" * 20_000, None, "invalid_json"),
    ([], "body", "invalid_value"),
    (b"null", "body", "invalid_value"),
    ("auto", "body", "invalid_value"),
    ({}, "model", "missing_parameter"),
    ({"model": "", "messages": HI}, "model", "missing_parameter"),
    ({"model": 7, "messages": HI}, "model", "invalid_value"),
    ({"model": None, "messages": HI}, "model", "invalid_value"),
    ({"model": "auto"}, "messages", "missing_parameter"),
    ({"model": "auto", "messages": []}, "messages", "invalid_value"),
    ({"model": "auto", "messages": "Hi"}, "messages", "invalid_value"),
    ({"model": "auto", "messages": [1]}, "messages", "invalid_value"),
    ({"model": "auto", "messages": HI, "stream": "yes"}, "stream", "invalid_value"),
    ({"model": "auto", "messages": HI, "max_tokens": 0}, "max_tokens", "invalid_value"),
    ({"model": "auto", "messages": HI, "max_tokens": 1.5}, "max_tokens", "invalid_value"),
    ({"model": "auto", "messages": HI, "max_tokens": 10**20}, "max_tokens", "invalid_value"),
    (
        {"model": "auto", "messages": HI, "routebalance": {"weight": 1}},
        "routebalance",
        "invalid_value",
    ),
    (
        {"model": "auto", "messages": HI, "routebalance": {"weights": "fast"}},
        "routebalance.weights",
        "invalid_value",
    ),
    (
        {
            "model": "auto",
            "messages": HI,
            "routebalance": {"weights": {"quality": 1, "cost": 1, "latency": 1}},
        },
        "routebalance.weights",
        "invalid_value",
    ),
    (
        {"model": "auto", "messages": HI, "routebalance": {"max_usd": -1}},
        "routebalance.max_usd",
        "invalid_value",
    ),
    (
        {"model": "auto", "messages": HI, "routebalance": {"models": [3]}},
        "routebalance.models[0]",
        "invalid_value",
    ),
]


@pytest.fixture
def gateway(upstreams, gateways) -> RunningGateway:
    running: RunningGateway = gateways(upstreams(count=1))
    return running


def test_a_bad_request_names_what_is_bad(gateway: RunningGateway) -> None:
    for body, param, code in BAD:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"content-type": "application/json"}
        for path in ("/v1/chat/completions", "/v1/route"):
            answer = gateway.http.post(path, headers=headers, content=data)
            assert answer.status_code == 400, (path, body, answer.text)
            error = answer.json()["error"]
            assert (error["param"], error["code"]) == (param, code), (path, body, error)
            assert error["type"] == "invalid_request_error"
            assert error["message"]
            assert answer.headers["x-request-id"]


@pytest.mark.parametrize(
    ("prompt", "param"), [(None, "prompt"), ([], "prompt"), (5, "prompt"), ({}, "prompt")]
)
def test_a_bad_prompt(gateway: RunningGateway, prompt: object, param: str) -> None:
    answer = gateway.http.post("/v1/completions", json={"model": "auto", "prompt": prompt})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)


def test_not_said_to_be_json(gateway: RunningGateway) -> None:
    answer = gateway.http.post("/v1/chat/completions", content=b"{}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (415, "unsupported_media_type")


@pytest.mark.parametrize("declared", [True, False])
def test_too_large(upstreams, gateways, declared: bool) -> None:
    (server,) = upstreams(count=1)
    gateway = gateways([server], server={"max_body": "4KiB"})
    body = chat_body("x" * 100_000)
    parts = body if declared else iter([body[at : at + 5000] for at in range(0, len(body), 5000)])
    headers = {"content-type": "application/json"}
    answer = gateway.http.post("/v1/chat/completions", content=parts, headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "body_too_large")
    assert not server.exchanges


def test_large_but_not_too_large(upstreams, gateways) -> None:
    (server,) = upstreams(polite)
    messages = [{"role": "user", "content": "word " * 500_000}]
    gateway = gateways([server], server={"max_body": "8MiB"})
    answer = gateway.chat(messages=messages, max_tokens=1)
    assert answer.status_code == 200
    assert server.exchanges[0].json["messages"] == messages
    assert server.exchanges[0].headers["content-length"]


def test_unknown_paths_and_methods(gateway: RunningGateway) -> None:
    assert gateway.http.get("/v1/chat/completions").status_code == 405
    answer = gateway.http.post("/v1/embeddings", json={})
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"),
        (403, "permission_error"),
        (404, "invalid_request_error"),
        (429, "rate_limit_error"),
        (502, "server_error"),
        (503, "service_unavailable_error"),
        (504, "timeout_error"),
    ],
)
def test_an_errors_type_is_that_of_its_status(status: int, kind: str) -> None:
    assert json.loads(ApiError(status, "so").body())["error"]["type"] == kind


def test_a_body_that_does_not_come(upstreams, gateways) -> None:
    """It holds a connection for as long as a client may take, and no longer."""
    (server,) = upstreams(count=1)
    gateway = gateways([server], timeouts={"client_s": 0.2})
    request = request_bytes(chat_request())
    with socket.create_connection(("127.0.0.1", httpx.URL(gateway.url).port), 20) as sock:
        sock.sendall(request[:-1])
        answer = b""
        while data := sock.recv(65536):
            answer += data
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 408 ")
    assert b"connection: close" in head.lower()
    assert json.loads(body)["error"]["code"] == "request_timeout"
    assert not server.exchanges
    gateway.wait_until_idle()
    assert gateway.chat().status_code == 200
