"""Who may do what: keys over HTTP."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import yaml

from tests.support.gateway.gate import Gate
from tests.support.gateway.running_gateway import HI
from tests.support.gateway.upstream_answers import held, polite
from trserve.gateway.access.keys_file import key_digest

KEYS: dict[str, dict[str, Any]] = {
    "alice": {"models": ["small"], "concurrency": 1},
    "bob": {"requests_per_minute": 2},
    "carol": {"tokens_per_minute": 50},
    "dave": {"admin": True},
}


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


@pytest.fixture
def guarded(upstreams, gateways, tmp_path):
    path = tmp_path / "keys.yaml"

    def write(keys: dict[str, dict[str, Any]]) -> None:
        lines = [
            {"name": name, "sha256": key_digest(f"key-{name}".encode()).hex(), **limits}
            for name, limits in keys.items()
        ]
        path.write_text(yaml.safe_dump(lines), encoding="utf-8")

    write(KEYS)
    (server,) = upstreams(count=1)
    gateway = gateways(
        [server],
        models=[{"name": "small"}, {"name": "other"}],
        server={"keys_file": str(path), "admin_key": "admin"},
    )

    def ask(who: str | None, **fields):
        headers = {} if who is None else bearer(who)
        body = {"model": "small", "messages": HI, **fields}
        return gateway.http.post("/v1/chat/completions", json=body, headers=headers)

    return server, gateway, ask, write


@pytest.mark.parametrize(
    ("who", "code"),
    [(None, "missing_api_key"), ("wrong", "invalid_api_key"), ("é", "invalid_api_key")],
)
def test_nobody_else_comes_in(guarded, who: str | None, code: str) -> None:
    server, gateway, _, _ = guarded
    headers = {} if who is None else {"authorization": f"Bearer {who}".encode("latin-1")}
    for method, path in (
        ("POST", "/v1/chat/completions"),
        ("POST", "/v1/completions"),
        ("POST", "/v1/route"),
        ("GET", "/v1/models"),
    ):
        answer = gateway.http.request(method, path, headers=headers, content=b"nonsense")
        assert (answer.status_code, answer.json()["error"]["code"]) == (401, code)
        assert answer.headers["www-authenticate"] == "Bearer"
    assert not server.exchanges
    assert gateway.http.get("/health").status_code == 200
    assert gateway.http.get("/metrics").status_code == 200


def test_models_that_a_key_is_not_for(guarded) -> None:
    server, _, ask, _ = guarded
    assert ask("key-alice").status_code == 200
    for fields in ({"model": "other"}, {"model": "auto"}, {"routebalance": {"models": ["other"]}}):
        answer = ask("key-alice", **fields)
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "model_not_allowed")
    assert len(server.exchanges) == 1


def test_how_many_at_once(guarded) -> None:
    server, gateway, ask, _ = guarded
    gate = Gate()
    server.answer = held(gate, polite)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(ask, "key-alice")
        server.wait_for(1)
        answer = ask("key-alice")
        assert (answer.status_code, answer.json()["error"]["code"]) == (429, "rate_limit_exceeded")
        assert int(answer.headers["retry-after"]) >= 1
        assert ask("key-alice", model="other").status_code == 403
        gate.open()
        assert first.result().status_code == 200
    gateway.wait_until_idle()
    assert ask("key-alice").status_code == 200


def test_how_many_a_minute(guarded) -> None:
    _, _, ask, _ = guarded
    assert [ask("key-bob").status_code for _ in range(3)] == [200, 200, 429]
    assert 1 <= int(ask("key-bob").headers["retry-after"]) <= 31
    assert ask("key-dave").status_code == 200


def test_how_many_tokens_a_minute(guarded) -> None:
    """What was announced is taken, and what was not used given back."""
    _, gateway, ask, _ = guarded
    for _ in range(3):
        assert ask("key-carol", max_tokens=20).status_code == 200
        gateway.wait_until_idle()
    assert ask("key-carol", max_tokens=45).status_code == 429


def test_an_explanation_wants_the_same_key_but_takes_nothing_of_its_limits(guarded) -> None:
    """It tells of prices: `/v1/route`."""
    _, gateway, ask, _ = guarded

    def explain(who: str, model: str = "small", **fields: Any):
        body = {"model": model, "messages": HI, **fields}
        return gateway.http.post("/v1/route", json=body, headers=bearer(who))

    assert explain("key-alice").status_code == 200
    for refused in (
        explain("key-alice", "other"),
        explain("key-alice", "auto"),
        explain("key-alice", routebalance={"models": ["other"]}),
    ):
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "model_not_allowed")
        assert refused.json()["error"]["type"] == "permission_error"
    assert [explain("key-bob").status_code for _ in range(3)] == [200, 200, 200]
    assert [ask("key-bob").status_code for _ in range(3)] == [200, 200, 429]
    assert explain("key-bob").status_code == 200


def test_the_administrators_doors(guarded) -> None:
    _, gateway, _, _ = guarded
    for key, status in (("key-alice", 401), ("key-dave", 200), ("admin", 200), ("wrong", 401)):
        assert gateway.http.get("/admin/instances", headers=bearer(key)).status_code == status
    assert gateway.http.get("/admin/instances").status_code == 401
    assert gateway.http.post("/admin/reload").status_code == 401
    assert gateway.http.delete("/admin/instances/a").status_code == 401


def test_without_an_admin_key_they_stay_shut(upstreams, gateways) -> None:
    gateway = gateways(upstreams(count=1), server={})
    answer = gateway.http.get("/admin/instances", headers=bearer("anything"))
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "admin_disabled")


def test_keys_come_and_go_by_a_reload(guarded) -> None:
    _, gateway, ask, write = guarded
    assert ask("key-eve").status_code == 401
    write({"eve": {}, **{name: KEYS[name] for name in ("bob", "dave")}})
    answer = gateway.http.post("/admin/reload", headers=bearer("admin"))
    assert (answer.status_code, answer.json()["changed"]) == (200, ["keys"])
    assert ask("key-eve").status_code == 200
    assert ask("key-alice").status_code == 401
    answer = gateway.http.post("/admin/reload", headers=bearer("admin"))
    assert answer.json()["changed"] == []  # the file is the same now


def test_one_key_for_everybody(upstreams, gateways) -> None:
    (server,) = upstreams(count=1)
    gateway = gateways([server], server={"api_key": "secret"})
    assert gateway.chat().status_code == 401
    answer = gateway.http.post(
        "/v1/chat/completions", json={"model": "auto", "messages": HI}, headers=bearer("secret")
    )
    assert answer.status_code == 200
    assert "authorization" not in server.exchanges[0].headers
