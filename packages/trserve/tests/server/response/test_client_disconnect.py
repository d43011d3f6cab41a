"""A client that leaves ends its requests in the group, whenever it leaves."""

from __future__ import annotations

import socket

import httpx
import pytest

from tests.support.trserve.demo_server import Demo
from tests.support.trserve.scripted_group import Reply
from tests.support.waiting import until


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("n", [1, 3])
def test_a_client_that_leaves_ends_its_requests(own_demo: Demo, stream: bool, n: int) -> None:
    own_demo.group.reply = lambda request: Reply("tick ", endless=True, hold_after=5)
    body = (
        b'{"model": "demo", "messages": [{"role": "user", "content": "x"}], "n": %d, "stream": %s}'
        % (n, b"true" if stream else b"false")
    )
    with socket.create_connection(("127.0.0.1", httpx.URL(own_demo.url).port)) as sock:
        sock.sendall(
            b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
            b"content-length: %d\r\n\r\n" % len(body) + body
        )
        if stream:
            assert sock.recv(100).startswith(b"HTTP/1.1 200")
        assert own_demo.group.wait_for(lambda group: len(group.requests) == n)
    assert own_demo.group.wait_for(lambda group: group.aborts == ["abort"] * n)
    assert own_demo.group.status().active == 0
    own_demo.group.reply = lambda request: Reply("ok")
    assert own_demo.chat().json()["choices"][0]["message"]["content"] == "ok"


def test_leaving_before_the_first_token(own_demo: Demo) -> None:
    own_demo.group.reply = lambda request: Reply("x", hold_after=0)
    with pytest.raises(httpx.ReadTimeout), httpx.Client(timeout=0.3) as impatient:
        impatient.post(
            f"{own_demo.url}/v1/completions", json={"model": "demo", "prompt": "x", "stream": True}
        )
    assert own_demo.group.wait_for(lambda group: group.aborts == ["abort"])


def test_a_client_that_leaves_while_it_sends_is_counted_as_gone(own_demo: Demo) -> None:
    where = (own_demo.http.base_url.host, own_demo.http.base_url.port or 80)
    with socket.create_connection(where) as client:
        client.sendall(
            b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n"
            b'content-type: application/json\r\ncontent-length: 100\r\n\r\n{"model'
        )
    line = 'trserve_http_responses_total{path="/v1/chat/completions",status="%d"}'
    until(lambda: f"{line % 499} 1.0" in own_demo.http.get("/metrics").text)
    assert line % 400 not in own_demo.http.get("/metrics").text
