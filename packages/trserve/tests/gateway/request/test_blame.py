"""What an instance is blamed for, and what is nobody's fault or its client's (16)."""

from __future__ import annotations

import json

import pytest

from tests.support.gateway.gate import Gate
from tests.support.gateway.running_gateway import RunningGateway
from tests.support.gateway.upstream_answers import (
    DONE,
    always,
    chat_chunk,
    chunk,
    chunked_head,
    event,
    hang,
    in_turn,
    play,
    polite,
    streamed,
    whole,
)
from tests.support.waiting import until

FIRST = chunk(event(chat_chunk("a")))
SERVER_ERROR = event({"error": {"message": "no", "type": "InternalServerError", "code": 500}})
TWICE = {"failures": 2, "cooldown_s": 60}
NO_PATH = b'{"error":{"message":"This is no place for v1/completions"}}'
NO_MODEL = b'{"error":{"message":"The model `small` does not exist","type":"NotFoundError"}}'


def breaker(gateway: RunningGateway) -> str:
    state: str = gateway.instances()["a"]["breaker"]
    return state


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        (whole(NO_PATH, status=404), "closed"),
        (whole(b'{"detail":"Not Found"}', status=404), "closed"),
        (always(501), "closed"),
        (whole(NO_MODEL, status=404), "open"),
        (always(500), "open"),
    ],
)
def test_what_a_server_does_not_have(upstreams, gateways, answer, state: str) -> None:
    """A path is the client's choice, which may ask for it as often as it likes."""
    gateway = gateways(upstreams(answer), breaker=TWICE, retries={"attempts": 1})
    for _ in range(3):
        gateway.http.post("/v1/completions", json={"model": "auto", "prompt": "x"})
    assert breaker(gateway) == state


def test_a_probe_that_ends_in_an_error_event_has_failed(upstreams, gateways) -> None:
    own = {"failures": 2, "cooldown_s": 0.1}
    server = upstreams(streamed([SERVER_ERROR, DONE]))
    gateway = gateways(server, breaker=own, retries={"attempts": 1})
    for _ in range(2):
        assert gateway.chat(stream=True).content.startswith(SERVER_ERROR)
    until(lambda: breaker(gateway) == "half-open")
    assert gateway.chat(stream=True).content.startswith(SERVER_ERROR)
    assert gateway.metric("trgateway_breaker_opened_total") == 2
    assert gateway.metric("trgateway_time_to_first_token_seconds_count") == 0


def test_a_hung_server_where_the_deadline_comes_first(upstreams, gateways) -> None:
    own = {"admin_key": "admin", "request_timeout": 1.0}  # half is time enough to be sent
    gateway = gateways(upstreams(hang), server=own, breaker=TWICE)
    for _ in range(2):
        assert gateway.chat(stream=True).json()["error"]["code"] == "timeout"
    assert breaker(gateway) == "open"


def test_a_stream_that_its_client_leaves_has_shown_that_the_server_lives(
    upstreams, gateways
) -> None:
    begun = play(chunked_head() + FIRST, Gate())
    (server,) = upstreams(in_turn(always(500), begun, always(500), begun, always(500), polite))
    gateway = gateways([server], breaker=TWICE, retries={"attempts": 1})
    for number in range(5):
        if number % 2 == 0:
            assert gateway.chat().status_code == 500
            continue
        with gateway.stream() as answer:
            assert next(answer.iter_bytes())
        gateway.wait_until_idle()
    assert breaker(gateway) == "closed"
    assert gateway.chat().status_code == 200


@pytest.mark.parametrize(
    "error",
    [
        {"message": "This model's maximum context length is 512 tokens.", "code": 400},
        {"error": {"message": "exceeds the available context size (512 tokens)", "code": 400}},
        {"message": "The input is longer than the model's context length (512 tokens)."},
        {"error": {"message": "x", "code": "context_length_exceeded"}},
    ],
)
def test_too_long_in_the_words_of_vllm_llama_cpp_sglang_and_openai(
    upstreams, gateways, error: dict[str, object]
) -> None:
    """(17) The one with more room is asked; here the first has less."""
    narrow, wide = upstreams(whole(json.dumps(error).encode(), status=400), polite)
    instances = [
        {"name": name, "model": "small", "url": url, "context": context, "metrics_path": None}
        for name, url, context in (("a", narrow.url, 512), ("b", wide.url, 4096))
    ]
    gateway = gateways([narrow, wide], instances=instances, policy="round-robin")
    for _ in range(2):
        assert gateway.chat(max_tokens=8).headers["x-routebalance-instance"] == "b"
    assert narrow.exchanges
    assert breaker(gateway) == "closed"
