"""The configuration file is read again while the gateway runs."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
import yaml

from tests.support.gateway.gate import Gate
from tests.support.gateway.gateway_parts import group_server
from tests.support.gateway.running_gateway import ADMIN, chat_request
from tests.support.gateway.upstream_answers import (
    DONE,
    LAST_CHUNK,
    chat_events,
    chunk,
    chunked_head,
    hang,
    held,
    play,
    polite,
)
from tests.support.waiting import until
from trserve.gateway.request.retry_budget import RetrySettings

FIRST = chat_events(["a"])[0]
URL = "http://127.0.0.1:9"


def rewritten(gateway, change) -> httpx.Response:
    """The file changed, and read again."""
    path = gateway.call(lambda: gateway.gateway.deployment.path)
    config = yaml.safe_load(path.read_text("utf-8"))
    change(config)
    path.write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
    response: httpx.Response = gateway.http.post("/admin/reload", headers=ADMIN)
    return response


def test_a_reload_follows_the_file(upstreams, gateways) -> None:
    one, two, three = upstreams(count=3)
    gateway = gateways([one, two])

    def change(config: dict[str, Any]) -> None:
        kept = config["instances"][0] | {"concurrency": 5}
        config["instances"] = [kept, {"name": "c", "model": "small", "url": three.url}]
        config["aliases"] = {"any": {"models": ["small"]}}
        config["timeouts"]["first_byte_s"] = 1
        config["retries"] = {"attempts": 1}

    answer = rewritten(gateway, change)
    assert answer.status_code == 200, answer.text
    changed = ["instance a changed", "instance b drained", "instance c added"]
    assert answer.json()["changed"] == [*changed, "aliases", "timeouts", "retries"]
    until(lambda: sorted(gateway.instances()) == ["a", "c"])
    names = {gateway.chat(model="any").headers["x-routebalance-instance"] for _ in range(4)}
    assert names == {"a", "c"}
    assert rewritten(gateway, lambda config: None).json()["changed"] == []


BAD: dict[str, Any] = {
    "unknown model": lambda config: config["instances"].append(
        {"name": "z", "model": "nobody", "url": "http://127.0.0.1:9"}
    ),
    "unset key": lambda config: config["instances"].__setitem__(
        slice(None),
        [{"name": "z", "model": "small", "url": "http://127.0.0.1:9", "api_key_env": "UNSET_KEY"}],
    ),
    "no room": lambda config: config["instances"].__setitem__(
        slice(None),
        [
            {"name": f"z{at}", "model": "small", "url": f"http://127.0.0.1:{at + 1}"}
            for at in range(9)
        ],
    ),
    "another policy": lambda config: config.update(policy="round-robin", weights="cost"),
    "a number that is none": lambda config: config["instances"][0].update(tpot_s=math.inf),
    "typing error": lambda config: config.update(timeout={}),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_changes_nothing(upstreams, gateways, name: str) -> None:
    """Not even half of what it says."""
    gate = Gate()
    (server,) = upstreams(held(gate, polite))
    gateway = gateways([server], spare=2)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(gateway.chat)
        server.wait_for(1)
        answer = rewritten(gateway, BAD[name])
        assert (answer.status_code, answer.json()["error"]["code"]) == (
            400,
            "invalid_configuration",
        )
        (report,) = gateway.instances().values()
        assert (report["name"], report["state"], report["in_flight"]) == ("a", "up", 1)
        gate.open()
        assert waiting.result(20).status_code == 200
    assert gateway.chat().status_code == 200


@pytest.mark.parametrize(
    ("entry", "param"),
    [
        ({"group": "pair", "only": "tiny"}, "instances[1].only"),
        ({"group": "pair", "threshold": 7}, "instances[1].threshold"),
        ({"url": URL, "tier": "H900"}, "instances[1].tier"),
    ],
)
def test_what_only_a_running_gateway_can_tell_is_told_before_anything_changes(
    upstreams, gateways, entry: dict[str, Any], param: str
) -> None:
    """What the group has, and which tiers times per token are known of."""
    servers = upstreams(count=2)
    gateway = gateways(servers, groups=[{"name": "pair", "preset": "profile-demo"}])
    own = gateway.gateway
    own.pool.groups["pair"] = group_server(URL)
    own.balancing.tiers = frozenset({"small"})

    def change(config: dict[str, Any]) -> None:  # a is gone, b another one, and z comes
        other = config["instances"][1] | {"concurrency": 5}
        config["instances"] = [other, {"name": "z", "model": "small", **entry}]

    answer = rewritten(gateway, change)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"].endswith(f" {param}"), answer.text
    states = {name: each["state"] for name, each in gateway.instances().items()}
    assert states == {"a": "up", "b": "up"}
    assert {gateway.chat().headers["x-routebalance-instance"] for _ in range(4)} == {"a", "b"}


def test_one_that_is_put_back_while_it_drains_is_there_again(upstreams, gateways) -> None:
    gate = Gate()
    slow = play(chunked_head(), chunk(FIRST), gate, chunk(DONE) + LAST_CHUNK)
    first, second = upstreams(slow, polite)
    gateway = gateways([first, second])
    removed: list[Any] = []
    with gateway.stream() as answer:
        assert answer.headers["x-routebalance-instance"] == "a"
        pieces = answer.iter_bytes()
        assert next(pieces) == FIRST
        gone = rewritten(gateway, lambda config: removed.append(config["instances"].pop(0)))
        assert gone.json()["changed"] == ["instance a drained"]
        assert gateway.instances()["a"]["state"] == "draining"
        back = rewritten(gateway, lambda config: config["instances"].append(removed[0]))
        assert (back.status_code, back.json()["changed"]) == (200, ["instance a changed"])
        assert gateway.instances()["a"]["state"] == "up"
        gate.open()
        assert b"".join(pieces) == DONE
    gateway.wait_until_idle()
    first.answer = polite
    assert {gateway.chat().headers["x-routebalance-instance"] for _ in range(6)} == {"a", "b"}


def test_a_name_that_an_administrator_took_is_the_files(upstreams, gateways) -> None:
    one, two, three = upstreams(count=3)
    gateway = gateways([one])
    body = {"name": "c", "model": "small", "url": two.url, "metrics_path": None}
    assert gateway.http.post("/admin/instances", json=body, headers=ADMIN).status_code == 201
    assert rewritten(gateway, lambda config: None).json()["changed"] == []  # it stays
    answer = rewritten(
        gateway, lambda config: config["instances"].append({**body, "url": three.url})
    )
    assert answer.json()["changed"] == ["instance c changed"]
    assert gateway.instances()["c"]["url"] == three.url
    assert {gateway.chat().headers["x-routebalance-instance"] for _ in range(4)} == {"a", "c"}
    assert not two.exchanges


def test_streams_go_on_at_an_instance_that_is_another_one_now(upstreams, gateways) -> None:
    gate = Gate()
    slow = play(chunked_head(), chunk(FIRST), gate, chunk(DONE) + LAST_CHUNK)
    (server,) = upstreams(slow)
    gateway = gateways([server], each={"concurrency": 1})

    def change(config: dict[str, Any]) -> None:
        config["instances"][0]["concurrency"] = 2

    with gateway.stream() as answer:
        pieces = answer.iter_bytes()
        assert next(pieces) == FIRST
        assert rewritten(gateway, change).json()["changed"] == ["instance a changed"]
        server.answer = polite
        assert gateway.chat().status_code == 200  # the new one has room
        found = gateway.http.post("/v1/route", json=chat_request()).json()
        assert (found["instance"], len(found["candidates"])) == ("a", 1)  # of the new one only
        gate.open()
        assert b"".join(pieces) == DONE
    gateway.wait_until_idle()
    until(lambda: gateway.call(lambda: len(gateway.gateway.pool._by_number)) == 1)


def test_retries_and_the_time_to_connect_follow(upstreams, gateways) -> None:
    gateway = gateways(upstreams(count=1))

    def change(config: dict[str, Any]) -> None:
        config["retries"] = {"budget": 0.7}
        config["timeouts"]["connect_s"] = 0.125

    assert rewritten(gateway, change).json()["changed"] == ["timeouts", "retries"]
    handler = gateway.gateway.handler
    assert handler._timeout.sock_connect == 0.125
    assert handler._retrier.budget._settings == RetrySettings(share=0.7)


@pytest.mark.parametrize(
    ("setting", "value"), [("api_key", "other"), ("max_body", "1MiB"), ("admin_key", "other")]
)
def test_what_the_server_was_started_with_stays(
    upstreams, gateways, setting: str, value: Any
) -> None:
    """The address, keys and sizes are the sockets': the file is refused as a whole."""
    (server,) = upstreams(count=1)
    gateway = gateways([server])

    def change(config: dict[str, Any]) -> None:
        config["server"] = {**config["server"], setting: value}
        config["instances"].append({"name": "b", "model": "small", "url": server.url})
        config["weights"] = "cost"

    answer = rewritten(gateway, change)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"].endswith(f" server.{setting}"), answer.text
    assert "needs a new start" in answer.json()["error"]["message"]
    assert list(gateway.instances()) == ["a"]
    assert gateway.call(lambda: gateway.gateway.deployment.gateway.weights) == "balanced"
    assert gateway.chat().status_code == 200


def test_how_long_a_request_may_take_follows(upstreams, gateways) -> None:
    (server,) = upstreams(hang)
    gateway = gateways([server])

    def change(config: dict[str, Any]) -> None:
        config["server"] = {**config["server"], "request_timeout": 0.2}

    assert rewritten(gateway, change).status_code == 200
    answer = gateway.chat()
    assert (answer.status_code, answer.json()["error"]["code"]) == (504, "timeout")
