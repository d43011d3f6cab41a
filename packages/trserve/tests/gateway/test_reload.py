"""The configuration file is read again while the gateway runs."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
import yaml

from packages.trsched.tests.waiting import until
from packages.trserve.tests.gateway.gate import Gate
from packages.trserve.tests.gateway.running_gateway import ADMIN
from packages.trserve.tests.gateway.upstream_answers import (
    DONE,
    LAST_CHUNK,
    chat_events,
    chunk,
    chunked_head,
    held,
    play,
    polite,
)

FIRST = chat_events(["a"])[0]


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
