"""Why an instance was chosen, and why others weren't (28)."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from rbalance import RouteRequest
from rbalance.decide.explain import Explanation
from tests.support.gateway.gate import Gate
from tests.support.gateway.running_gateway import ADMIN, HI
from tests.support.gateway.upstream_answers import DONE, always, hang, whole
from tests.support.waiting import until

MODELS = [
    {"name": "small", "quality": 0.4, "price_out": 1, "tpot_s": 0.01, "context": 512},
    {"name": "large", "quality": 0.9, "price_out": 9, "tpot_s": 0.05, "capabilities": ["n"]},
]


@pytest.fixture
def pair(upstreams, gateways):
    servers = upstreams(count=2)
    instances = [
        {"name": name, "model": name, "url": server.url, "metrics_path": None}
        for name, server in zip(("small", "large"), servers, strict=True)
    ]
    checks = {"health_s": 0.02, "health_timeout_s": 5}
    return servers, gateways(servers, models=MODELS, instances=instances, checks=checks)


def explained(gateway, **fields: Any) -> dict[str, Any]:
    body = {"model": "auto", "messages": HI, **fields}
    answer = gateway.http.post("/v1/route", json=body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def why_not(found: dict[str, Any]) -> dict[str, str | None]:
    return {each["instance"]: each["why_not"] for each in found["candidates"]}


@pytest.mark.parametrize("weights", ["quality", "cost", "latency", "balanced"])
@pytest.mark.parametrize("tokens", [4, 400])
def test_what_is_explained_is_what_is_done(pair, weights: str, tokens: int) -> None:
    servers, gateway = pair
    options = {"weights": weights}
    found = explained(gateway, routebalance=options, max_tokens=tokens)
    assert not any(server.exchanges for server in servers)  # nothing was sent
    assert len(found["candidates"]) == 2
    best = max(found["candidates"], key=lambda each: each["score"])
    assert found["instance"] == best["instance"]
    answer = gateway.chat(routebalance={**options, "explain": True}, max_tokens=tokens)
    headers, note = answer.headers, answer.json()["routebalance"]
    scores = json.loads(headers["x-routebalance-scores"])
    assert headers["x-routebalance-instance"] == note["instance"] == found["instance"]
    assert headers["x-routebalance-model"] == note["model"] == found["model"]
    assert headers["x-routebalance-reason"] == note["reason"]
    assert scores == note["scores"]
    assert scores["score"] == pytest.approx(best["score"], abs=1e-5)
    assert scores["quality"] == pytest.approx(best["terms"]["quality"], abs=1e-5)
    assert scores["usd"] == pytest.approx(best["cost_usd"])
    assert scores["seconds"] == pytest.approx(best["seconds"], abs=1e-5)
    assert sum(found["weights"].values()) == pytest.approx(1)


def test_the_scores_choose_the_models(pair) -> None:
    _, gateway = pair
    by_weight = {"quality": "large", "cost": "small", "latency": "small"}
    for weights, model in by_weight.items():
        found = explained(gateway, max_tokens=9, routebalance={"weights": weights})
        assert found["model"] == model


def test_a_stream_is_told_by_a_comment(pair) -> None:
    _, gateway = pair
    asked = {"stream": True, "routebalance": {"explain": True}}
    text = gateway.chat(**asked).content
    comment, rest = text.split(b"\n\n", 1)
    note = json.loads(comment.removeprefix(b": routebalance "))
    assert note["instance"] in ("small", "large")
    assert rest.startswith(b"data: ")
    assert rest.endswith(DONE)
    assert b"routebalance" not in gateway.chat(stream=True).content
    with gateway.openai() as client:  # the official client reads over it
        chunks = client.chat.completions.create(
            model="auto", messages=HI, stream=True, extra_body={"routebalance": {"explain": True}}
        )
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "Hello"


def test_an_answer_with_no_fields_gets_the_note_too(pair) -> None:
    servers, gateway = pair
    for server in servers:
        server.answer = whole(b" { } ")
    assert set(gateway.chat(routebalance={"explain": True}).json()) == {"routebalance"}
    assert gateway.chat().content == b" { } "


TOOLS = [{"type": "function", "function": {"name": "f"}}]


@pytest.mark.parametrize(
    ("fields", "name", "why"),
    [
        ({"max_tokens": 600}, "small", "do not fit its 512"),
        ({"tools": TOOLS, "max_tokens": 9}, "large", "lacks tools"),
        ({"model": "small", "max_tokens": 9}, "large", "model not allowed"),
        ({"model": "large", "max_tokens": 9}, "small", "model not allowed"),
        ({"max_tokens": 9, "routebalance": {"models": ["large"]}}, "small", "model not allowed"),
        ({"max_tokens": 9, "routebalance": {"max_usd": 5e-5}}, "large", "above max_usd"),
        ({"max_tokens": 9, "routebalance": {"max_seconds": 0.2}}, "large", "above max_seconds"),
    ],
)
def test_why_not(pair, fields: dict[str, Any], name: str, why: str) -> None:
    _, gateway = pair
    found = explained(gateway, **fields)
    other = "large" if name == "small" else "small"
    assert why in str(why_not(found)[name])
    assert why_not(found)[other] is None
    assert found["instance"] == other
    assert gateway.chat(**fields).headers["x-routebalance-instance"] == other


def test_why_not_a_draining_or_an_ill_one(pair) -> None:
    servers, gateway = pair
    servers[0].pages["/health"] = always(503)
    until(lambda: why_not(explained(gateway, max_tokens=9))["small"] == "unhealthy")
    servers[1].answer = hang
    with gateway.sent(model="large"):
        servers[1].wait_for(1)
        gateway.http.delete("/admin/instances/large", headers=ADMIN)
        assert why_not(explained(gateway, max_tokens=9))["large"] == "draining"
        assert explained(gateway)["instance"] is None
    until(lambda: "large" not in why_not(explained(gateway)))
    servers[0].pages["/health"] = always(200)
    until(lambda: why_not(explained(gateway, max_tokens=9))["small"] is None)


def test_why_nobody(pair) -> None:
    _, gateway = pair
    found = explained(gateway, routebalance={"max_usd": 0})
    assert (found["instance"], found["model"]) == (None, None)
    assert found["reason"] == "no instance may take it"
    answer = gateway.chat(routebalance={"max_usd": 0})
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "no_candidate")


def test_a_text_is_explained_as_well(pair) -> None:
    _, gateway = pair
    body = {"model": "auto", "prompt": 'say "messages"'}
    assert gateway.http.post("/v1/route", json=body).json()["prompt_tokens"] == 4
    answer = gateway.http.post("/v1/route", json={"model": "auto", "prompt": "messages"})
    assert answer.status_code == 200


def test_one_is_explained_at_a_time(pair, monkeypatch) -> None:
    _, gateway = pair
    balancer = gateway.gateway.balancer
    begun: list[RouteRequest] = []
    gate = Gate()
    explain = balancer.explain

    async def slowly(request: RouteRequest) -> Explanation:
        begun.append(request)
        await gate.passed()
        found: Explanation = await explain(request)
        return found

    monkeypatch.setattr(balancer, "explain", slowly)
    with ThreadPoolExecutor(2) as threads:
        both = [threads.submit(explained, gateway) for _ in range(2)]
        until(lambda: gateway.call(lambda: len(gateway.gateway._explaining._waiters or ())) == 1)
        assert len(begun) == 1
        assert gateway.chat().status_code == 200  # decisions don't wait for it
        gate.open()
        assert {each.result()["policy"] for each in both} == {"route-balance"}
    assert len(begun) == 2


@pytest.mark.parametrize("policy", ["round-robin", "shortest-queue", "random"])
def test_policies_without_scores(upstreams, gateways, policy: str) -> None:
    gateway = gateways(upstreams(count=2), policy=policy)
    found = explained(gateway)
    assert found["policy"] == policy
    assert found["weights"] is None
    answer = gateway.chat()
    assert answer.headers["x-routebalance-reason"] == "policy"
    assert "x-routebalance-scores" not in answer.headers
