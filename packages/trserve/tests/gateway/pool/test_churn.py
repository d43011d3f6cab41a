"""Instances come, drain and go under load; each request finishes, or fails clearly (27)."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.support.gateway.gate import Gate
from tests.support.gateway.running_gateway import ADMIN, chat_request
from tests.support.gateway.upstream_answers import (
    DONE,
    LAST_CHUNK,
    chat_events,
    chunk,
    chunked_head,
    held,
    play,
    polite,
)
from tests.support.waiting import until

FIRST = chat_events(["a"])[0]


def add(gateway, name: str, server, **fields: Any) -> httpx.Response:
    body = {"name": name, "model": "small", "url": server.url, "metrics_path": None, **fields}
    response: httpx.Response = gateway.http.post("/admin/instances", json=body, headers=ADMIN)
    return response


def remove(gateway, name: str, mode: str = "drain") -> httpx.Response:
    response: httpx.Response = gateway.http.delete(
        f"/admin/instances/{name}", params={"mode": mode}, headers=ADMIN
    )
    return response


def wait_until_gone(gateway, name: str) -> None:
    until(lambda: name not in gateway.instances())


def wait_for_exchanges(servers, count: int) -> None:
    until(lambda: sum(len(each.exchanges) for each in servers) > count)


def test_one_is_added_and_used(upstreams, gateways) -> None:
    old, new = upstreams(count=2)
    gateway = gateways([old])
    answer = add(gateway, "new", new, concurrency=3)
    assert (answer.status_code, answer.json()["state"]) == (201, "up")
    assert {gateway.chat().headers["x-routebalance-instance"] for _ in range(4)} == {"a", "new"}
    assert list(gateway.instances()) == ["a", "new"]
    assert gateway.metric("trgateway_instance_up", instance="new") == 1


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"name": "a"}, "name"),
        ({"model": "nobody"}, "model"),
        ({"url": "ftp://x"}, "url"),
        ({"url": None}, "body"),
        ({"group": "g"}, "body"),
        ({"concurrency": 0}, "concurrency"),
        ({"colour": "red"}, "body"),
        ({"api_key_env": "NOBODY_SET_THIS"}, "api_key_env"),
        ({"health_path": "health"}, "health_path"),
        ({"url": "http://127.0.0.1:9/v1"}, "url"),
        ({"context": 2**31}, "context"),
        ({"slots": 2**31}, "slots"),
    ],
)
def test_one_that_cannot_be(upstreams, gateways, fields: dict[str, Any], param: str) -> None:
    servers = upstreams(count=1)
    gateway = gateways(servers)
    body = {"name": "b", "model": "small", "url": servers[0].url, **fields}
    answer = gateway.http.post("/admin/instances", json=body, headers=ADMIN)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param), answer.text
    assert list(gateway.instances()) == ["a"]


def test_a_key_that_the_file_does_not_use_cannot_be_sent_anywhere(
    upstreams, gateways, monkeypatch
) -> None:
    """Else an administrator from afar could read any variable of the gateway's."""
    monkeypatch.setenv("SECRET_OF_MINE", "s3cret")
    monkeypatch.setenv("KEY_OF_THE_POOL", "k3y")
    old, new = upstreams(count=2)
    gateway = gateways([old], each={"api_key_env": "KEY_OF_THE_POOL"})
    answer = add(gateway, "b", new, api_key_env="SECRET_OF_MINE")
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "api_key_env")
    assert add(gateway, "b", new, api_key_env="KEY_OF_THE_POOL").status_code == 201
    until(lambda: "/health" in new.paths)


def test_there_is_room_for_so_many(upstreams, gateways) -> None:
    servers = upstreams(count=1)
    gateway = gateways(servers, spare=1)
    assert add(gateway, "b", servers[0]).status_code == 201
    assert add(gateway, "c", servers[0]).status_code == 400
    remove(gateway, "b")
    until(lambda: list(gateway.instances()) == ["a"])
    assert add(gateway, "c", servers[0]).status_code == 201


def test_a_name_with_odd_characters(upstreams, gateways) -> None:
    old, new = upstreams(count=2)
    gateway = gateways([old])
    name = 'gpu/0 "é"'
    assert add(gateway, name, new).status_code == 201
    seen = {gateway.chat().headers["x-routebalance-instance"] for _ in range(4)}
    assert seen == {"a", 'gpu/0 "\\xe9"'}
    assert gateway.metric("trgateway_instance_up", instance=name) == 1
    answer = gateway.http.delete("/admin/instances/gpu%2F0%20%22%C3%A9%22", headers=ADMIN)
    assert answer.status_code == 200
    until(lambda: list(gateway.instances()) == ["a"])


def test_a_draining_one_finishes_what_it_has(upstreams, gateways) -> None:
    gate = Gate()
    slow = play(chunked_head(), chunk(FIRST), gate, chunk(DONE) + LAST_CHUNK)
    first, second = upstreams(slow, polite)
    gateway = gateways([first])
    with gateway.stream() as answer:
        pieces = answer.iter_bytes()
        assert next(pieces) == FIRST
        assert add(gateway, "b", second).status_code == 201
        assert remove(gateway, "a").json()["state"] == "draining"
        assert remove(gateway, "a").json()["state"] == "draining"
        assert gateway.metric("trgateway_instance_draining", instance="a") == 1
        names = {gateway.chat().headers["x-routebalance-instance"] for _ in range(6)}
        assert names == {"b"}
        gate.open()
        assert b"".join(pieces) == DONE
    until(lambda: list(gateway.instances()) == ["b"])
    assert remove(gateway, "a").status_code == 404
    gateway.wait_until_idle()


def test_what_a_removed_one_had_is_tried_elsewhere_or_told(upstreams, gateways) -> None:
    first = upstreams(play(chunked_head(), chunk(FIRST), Gate()))[0]
    gateway = gateways([first], each={"concurrency": 2})
    (second,) = upstreams(polite)
    with gateway.stream() as begun, ThreadPoolExecutor(2) as pool:
        pieces = begun.iter_bytes()
        assert next(pieces) == FIRST
        first.answer = held(Gate(), polite)
        sent = pool.submit(gateway.chat)  # sent, not answered
        first.wait_for(2)
        queued = pool.submit(gateway.chat)  # waits for its turn
        until(lambda: gateway.in_flight()["a"][0] == 2)
        assert add(gateway, "b", second).status_code == 201
        assert remove(gateway, "a", "now").status_code == 200
        for waiting in (sent, queued):
            assert waiting.result(20).headers["x-routebalance-instance"] == "b"
        assert b'"code":"instance_removed"' in b"".join(pieces)
    assert all(exchange.left.wait(5) for exchange in first.exchanges)
    assert list(gateway.instances()) == ["b"]
    gateway.wait_until_idle()


def test_the_last_one_is_removed(upstreams, gateways) -> None:
    (server,) = upstreams(held(Gate(), polite))
    gateway = gateways([server])
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(gateway.chat)
        server.wait_for(1)
        remove(gateway, "a", "now")
        answer = waiting.result(20)
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "no_instance")
    assert gateway.http.get("/health").status_code == 503


def test_nothing_hangs_while_everything_changes(upstreams, gateways) -> None:
    servers = upstreams(count=4)
    gateway = gateways(servers)
    over = threading.Event()
    wrong: list[str] = []

    def ask(number: int) -> int:
        done = 0
        with httpx.Client(base_url=gateway.url, timeout=20) as http:
            while not over.is_set():
                body = chat_request(stream=(number + done) % 2 == 0)
                answer = http.post("/v1/chat/completions", json=body)
                text = answer.text
                if answer.status_code != 200 and "instance" not in text:
                    wrong.append(text)
                if answer.status_code == 200 and not ("Hello" in text or "[DONE]" in text):
                    wrong.append(text)
                done += 1
        return done

    with ThreadPoolExecutor(6) as pool:
        asked = [pool.submit(ask, number) for number in range(6)]
        for turn in range(24):
            name = f"new-{turn}"
            added = add(gateway, name, servers[turn % 4], concurrency=1 + turn % 3)
            assert added.status_code == 201
            wait_for_exchanges(servers, 4 * turn)
            mode = ("now", "drain")[turn % 2]
            assert remove(gateway, name, mode).status_code == 200
            if turn % 8 == 0:
                for each in "ab":
                    remove(gateway, each, mode)
                    wait_until_gone(gateway, each)
                    assert add(gateway, each, servers[ord(each) - ord("a")]).status_code == 201
        over.set()
        assert all(each.result(20) > 0 for each in asked)
    assert wrong == []
    gateway.wait_until_idle()
    until(lambda: sorted(gateway.instances()) == ["a", "b", "c", "d"])
