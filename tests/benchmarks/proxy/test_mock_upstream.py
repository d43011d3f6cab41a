"""The mock upstreams, over real sockets."""

from __future__ import annotations

import asyncio
import json
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from benchmarks.proxy.upstreams import Upstreams, mock_upstreams
from trserve.gateway.pool.telemetry_text import read_metrics


@pytest.fixture(scope="module")
def upstreams() -> Iterator[Upstreams]:
    with mock_upstreams(2) as found:
        yield found


def get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=10) as response:
        return bytes(response.read())


def chat(upstreams: Upstreams, **asked: Any) -> bytes:
    body = json.dumps({"model": "small", "messages": [], **asked}).encode()
    request = urllib.request.Request(f"{upstreams.urls[0]}/v1/chat/completions", body)
    with urllib.request.urlopen(request, timeout=10) as response:
        return bytes(response.read())


def events(reply: bytes) -> list[Any]:
    lines = [line.removeprefix(b"data: ") for line in reply.split(b"\n\n") if line]
    assert lines.pop() == b"[DONE]"
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize(
    "path", ["health", "v1/models", "get_model_info", "get_server_info", "server_info", "version"]
)
def test_every_server_answers_what_routers_probe(upstreams: Upstreams, path: str) -> None:
    for url in upstreams.urls:
        assert isinstance(json.loads(get(f"{url}/{path}")), dict)


def test_what_it_does_not_know_is_not_found(upstreams: Upstreams) -> None:
    with pytest.raises(urllib.error.HTTPError, match="404") as caught:
        get(f"{upstreams.urls[0]}/nothing")
    caught.value.close()


@pytest.mark.parametrize("tokens", [1, 7])
def test_a_response_has_the_tokens_asked_for(upstreams: Upstreams, tokens: int) -> None:
    whole = json.loads(chat(upstreams, max_tokens=tokens))
    assert whole["choices"][0]["message"]["content"] == " token" * tokens
    assert whole["usage"]["completion_tokens"] == tokens


@pytest.mark.parametrize("tokens", [1, 2, 7])
@pytest.mark.parametrize("step_s", [0.0, 0.001])
def test_a_stream_has_the_tokens_asked_for(
    upstreams: Upstreams, tokens: int, step_s: float
) -> None:
    upstreams.pace(step_s, step_s)
    chunks = events(chat(upstreams, max_tokens=tokens, stream=True))
    upstreams.pace(0.0, 0.0)
    said = [chunk["choices"][0]["delta"].get("content", "") for chunk in chunks]
    assert "".join(said) == " token" * tokens
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks][-1] == "length"


def test_usage_ends_a_stream_where_it_is_wanted(upstreams: Upstreams) -> None:
    wanted = {"stream_options": {"include_usage": True}}
    chunks = events(chat(upstreams, max_completion_tokens=3, stream=True, **wanted))
    assert [bool(chunk["choices"]) for chunk in chunks] == [True] * 5 + [False]
    assert chunks[-1]["usage"]["completion_tokens"] == 3


def test_a_client_of_http_2_is_hung_up_on(upstreams: Upstreams) -> None:
    with socket.create_connection(("127.0.0.1", upstreams.ports[0]), timeout=10) as client:
        client.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        assert client.recv(1) == b""


def test_a_stream_whose_client_left_runs_no_longer(upstreams: Upstreams) -> None:
    def running() -> int:
        reading = read_metrics(get(f"{upstreams.urls[0]}/metrics"))
        assert reading is not None
        return reading.telemetry.running

    async def leave_in_the_middle() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", upstreams.ports[0])
        body = b'{"max_tokens":1000000,"stream":true}'
        head = b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body)
        writer.write(head + body)
        await reader.readuntil(b" token")
        assert await asyncio.to_thread(running) == 1
        writer.close()
        while await asyncio.to_thread(running):
            pass

    upstreams.pace(0.0, 0.01)
    asyncio.run(leave_in_the_middle())
    upstreams.pace(0.0, 0.0)
