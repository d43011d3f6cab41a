"""What `model` may be, what `/v1/models` says, and whose name stands in the answer (20, 22)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest

from tests.support.gateway.running_gateway import ADMIN
from tests.support.gateway.upstream_answers import hang
from tests.support.waiting import until


@pytest.fixture
def zoo(upstreams, gateways):
    """Two models, one with two instances, which call it otherwise; an alias for each and both."""
    servers = upstreams(count=3)
    one, two, three = servers
    gateway = gateways(
        servers,
        models=[{"name": "small", "quality": 0.4}, {"name": "large", "quality": 0.9}],
        instances=[
            {"name": "s1", "model": "small", "url": one.url, "upstream_model": "acme/tiny-1b"},
            {"name": "s2", "model": "small", "url": two.url, "upstream_model": "acme/tiny-1b"},
            {"name": "l1", "model": "large", "url": three.url},
        ],
        aliases={
            "cheap": {"models": ["small"]},
            "best": {"models": ["small", "large"], "weights": "quality"},
        },
    )
    return servers, gateway


@pytest.mark.parametrize(
    ("name", "instances"),
    [
        ("small", {"s1", "s2"}),
        ("large", {"l1"}),
        ("cheap", {"s1", "s2"}),
        ("best", {"l1"}),
        ("acme/tiny-1b", {"s1", "s2"}),
        ("auto", {"s1", "s2", "l1"}),
    ],
)
def test_a_name_restricts_the_choice(zoo, name: str, instances: set[str]) -> None:
    _, gateway = zoo
    answers = [gateway.chat(model=name) for _ in range(6)]
    got = {answer.headers["x-routebalance-instance"] for answer in answers}
    assert got <= instances
    assert got == instances or name == "auto"


def test_the_answer_names_who_gave_it(zoo) -> None:
    """The instance's own name of it, in whole answers and streams, and ours in a header."""
    servers, gateway = zoo
    names = {"small": "acme/tiny-1b", "large": "large"}
    for name in ("auto", "small", "large", "best"):
        for stream in (False, True):
            answer = gateway.chat(model=name, stream=stream)
            model = answer.headers["x-routebalance-model"]
            assert f'"model": "{names[model]}"' in answer.text
            assert "auto" not in answer.text
    asked = {exchange.json["model"] for server in servers for exchange in server.exchanges}
    assert asked == set(names.values())


def test_routebalance_models_restricts_it_too(zoo) -> None:
    _, gateway = zoo
    answer = gateway.chat(model="auto", routebalance={"models": ["large"]})
    assert answer.headers["x-routebalance-instance"] == "l1"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"model": "nobody"}, "model"),
        ({"model": "s1"}, "model"),
        ({"routebalance": {"models": ["large", "nobody"]}}, "routebalance.models[1]"),
    ],
)
def test_an_unknown_name(zoo, fields: dict[str, object], param: str) -> None:
    servers, gateway = zoo
    answer = gateway.chat(**fields)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (404, "model_not_found", param)
    assert "small" in error["message"]
    assert not any(server.exchanges for server in servers)


@pytest.mark.parametrize("name", ["acme/tiny-1b", "cheap"])
def test_a_request_under_way_outlives_the_name_it_came_by(zoo, name: str) -> None:
    servers, gateway = zoo
    for server in servers:
        server.answer = hang
    with ThreadPoolExecutor(1) as thread:
        under_way = thread.submit(gateway.chat, model=name)
        until(lambda: any(server.exchanges for server in servers))
        gone = msgspec.structs.replace(gateway.gateway.deployment.gateway, aliases={})
        gateway.call(lambda: gateway.gateway.requests.configure(gone))
        for instance in ("s1", "s2"):
            gateway.http.delete(f"/admin/instances/{instance}?mode=now", headers=ADMIN)
        answer = under_way.result()
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "no_instance")
    assert gateway.chat(model=name).json()["error"]["code"] == "model_not_found"


def test_models_are_listed_without_asking_anybody(zoo) -> None:
    servers, gateway = zoo
    for server in servers:
        server.answer = hang
    with gateway.openai() as client:
        listed = [model.id for model in client.models.list()]
        assert listed == ["auto", "cheap", "best", "small", "large"]
        assert client.models.retrieve("best").id == "best"
    answer = gateway.http.get("/v1/models/nobody")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "model_not_found")
    assert not any("/v1/models" in server.paths for server in servers)


def test_models_are_listed_when_nobody_lives(upstreams, gateways, upstream_loop) -> None:
    (server,) = upstreams(count=1)
    gateway = gateways([server])
    upstream_loop.stop(server)
    assert gateway.http.get("/v1/models").status_code == 200
