"""Heads and counts that no server should send, and that do no harm."""

from __future__ import annotations

import asyncio
import logging

import pytest

from tests.support.gateway.scripted_upstream import Exchange
from tests.support.gateway.upstream_answers import (
    JSON,
    LAST_CHUNK,
    always,
    chat_body,
    chunk,
    chunked_head,
    polite,
    streamed,
    whole,
)
from trserve.http.logs import configure_logging


@pytest.mark.parametrize("status", [199, 304, 600, 999])
def test_a_status_that_is_none(upstreams, gateways, status: int) -> None:
    gateway = gateways(upstreams(always(status, b"{}"), polite), policy="round-robin")
    for _ in range(2):
        assert gateway.chat().status_code == 200
    assert gateway.metric("trgateway_retries_total") > 0


def test_a_header_that_may_not_be(upstreams, gateways) -> None:
    gateway = gateways(upstreams(whole(chat_body(), "x-bad: a\x7fb", "x-good: caf\xe9")))
    answer = gateway.chat()
    assert answer.status_code == 200
    assert answer.headers["x-good"] == "caf\xe9"
    assert "x-bad" not in answer.headers


@pytest.mark.parametrize("tokens", [-5, 10**15, 10**30])
@pytest.mark.parametrize("stream", [False, True])
def test_a_usage_that_lies(upstreams, gateways, tokens: int, stream: bool) -> None:
    """Its client keeps its connection, and nobody's account goes wild."""
    event = b'data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":%d}}\n\n' % tokens
    lying = streamed([event, b"data: [DONE]\n\n"]) if stream else whole(chat_body(tokens=tokens))
    gateway = gateways(upstreams(lying))
    for _ in range(2):
        assert gateway.chat(stream=stream).status_code == 200
    gateway.wait_until_idle()
    assert 0 <= gateway.metric("trgateway_tokens_total") <= 2e7
    assert gateway.metric("trgateway_request_duration_seconds_count") == 2


def test_a_whole_answer_that_trickles(upstreams, gateways) -> None:
    """Its time is for all of it."""

    async def trickle(exchange: Exchange) -> None:
        await exchange.write(chunked_head(200, JSON))
        for _ in range(200):
            await exchange.write(chunk(b" "))
            await asyncio.sleep(0.02)
        await exchange.write(chunk(chat_body()) + LAST_CHUNK)

    gateway = gateways(upstreams(trickle), timeouts={"whole_s": 0.2}, retries={"attempts": 1})
    answer = gateway.chat()
    assert (answer.status_code, answer.json()["error"]["code"]) == (504, "upstream_timeout")
    gateway.wait_until_idle()


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "http://no.such.host.invalid"])
def test_nobody_is_told_where_an_instance_is(gateways, url: str) -> None:
    instances = [{"name": "a", "model": "small", "url": url, "metrics_path": None}]
    gateway = gateways([], instances=instances, retries={"attempts": 1})
    message = gateway.chat().json()["error"]["message"]
    assert message.startswith("Instance a cannot be reached: ")
    assert "127.0.0.1" not in message
    assert "host" not in message


def test_a_tokenrouter_object_that_is_no_text(upstreams, gateways) -> None:
    gateway = gateways(upstreams(polite))
    messages = b'[{"role":"user","content":"Hi"}]'
    body = b'{"model":"auto","messages":%b,"tokenrouter":{"\xff":1}}' % messages
    kind = {"content-type": "application/json"}
    answer = gateway.http.post("/v1/chat/completions", content=body, headers=kind)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "tokenrouter")


@pytest.mark.parametrize("json_logs", [False, True])
def test_an_unexpected_errors_traceback_has_no_values(
    json_logs: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """They may be keys and prompts."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    configure_logging("info", json_logs=json_logs)
    key = b"very-secret".decode()
    try:
        raise ValueError(len(key))
    except ValueError:
        logging.getLogger("trserve").exception("failed")
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
    said = capsys.readouterr().err
    assert "ValueError" in said
    assert "'very-secret'" not in said
