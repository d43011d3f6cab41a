"""From the decision to the answer, where instances fail, go, or turn out too small meanwhile."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from rbalance import Balancer, Routed, RouteRequest
from rbalance.policies.weights import PRESETS
from tests.support.gateway.gate import Gate
from tests.support.gateway.running_gateway import ADMIN, RunningGateway
from tests.support.gateway.upstream_answers import (
    DONE,
    LAST_CHUNK,
    always,
    chat_chunk,
    chat_events,
    chunk,
    chunked_head,
    error_body,
    event,
    hang,
    held,
    play,
    polite,
    raw,
)
from tests.support.waiting import until
from trserve.gateway.pool.instance import Instance

FIRST = chat_events(["a"])[0]
TOO_LONG = error_body(
    "This model's maximum context length is 512 tokens", "context_length_exceeded"
)
BREAKER = {"failures": 1, "cooldown_s": 60}


def named(gateway: RunningGateway, name: str) -> Instance:
    found = gateway.gateway.pool.named(name)
    assert found is not None
    return found


def half_open(gateway: RunningGateway, name: str) -> None:
    """Its breaker opened a cooldown ago: the next request is the probe."""
    breaker = named(gateway, name).breaker
    gateway.call(lambda: breaker.failed(gateway.loop.time() - 60.0))
    assert gateway.instances()[name]["breaker"] == "half-open"


def test_nobody_is_left_but_one_that_is_being_probed(upstreams, gateways) -> None:
    """The request ends with the failure that it saw; it does not ask again and again."""
    broken, probed = upstreams(raw(b""), polite)
    gateway = gateways(
        [broken, probed],
        breaker=BREAKER,
        retries={"budget": 1},
        server={"admin_key": "admin", "request_timeout": 3},
    )
    half_open(gateway, "b")
    breaker = named(gateway, "b").breaker
    assert gateway.call(lambda: breaker.allows(gateway.loop.time()))  # the probe is on its way
    answer = gateway.chat()
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "upstream_broken")
    assert (len(broken.exchanges), len(probed.exchanges)) == (1, 0)
    gateway.wait_until_idle()


def test_a_probe_whose_client_left_lets_the_next_one_through(upstreams, gateways) -> None:
    (server,) = upstreams(hang)
    gateway = gateways([server], breaker=BREAKER)
    half_open(gateway, "a")
    with gateway.sent():
        server.wait_for(1)
        assert gateway.chat().status_code == 503  # one at a time
    gateway.wait_until_idle()
    server.answer = polite
    assert gateway.chat().status_code == 200
    assert gateway.instances()["a"]["breaker"] == "closed"


def test_a_probe_that_is_told_to_wait_has_shown_that_it_lives(upstreams, gateways) -> None:
    (server,) = upstreams(always(429))
    gateway = gateways([server], breaker=BREAKER)
    half_open(gateway, "a")
    assert gateway.chat().status_code == 429
    assert gateway.instances()["a"]["breaker"] == "closed"
    server.answer = polite
    assert gateway.chat().status_code == 200


def test_a_stream_that_has_begun_is_a_success(upstreams, gateways) -> None:
    """It may go on for minutes; others need not wait for its end."""
    gate = Gate()
    (server,) = upstreams(play(chunked_head(), chunk(FIRST), gate, chunk(DONE) + LAST_CHUNK))
    gateway = gateways([server], breaker=BREAKER)
    half_open(gateway, "a")
    with gateway.stream() as answer:
        pieces = answer.iter_bytes()
        assert next(pieces) == FIRST
        assert gateway.instances()["a"]["breaker"] == "closed"
        server.answer = polite
        assert gateway.chat().status_code == 200
        gate.open()
        assert b"".join(pieces) == DONE


def test_who_waits_for_its_turn_at_one_that_falls_ill_goes_elsewhere_at_once(
    upstreams, gateways
) -> None:
    gate = Gate()
    first, second = upstreams(held(gate, polite), polite)
    gateway = gateways([first], each={"concurrency": 1})
    with ThreadPoolExecutor(2) as threads:
        sent = threads.submit(gateway.chat)
        first.wait_for(1)
        queued = threads.submit(gateway.chat)
        until(lambda: gateway.in_flight()["a"][0] == 2)
        body = {"name": "b", "model": "small", "url": second.url, "metrics_path": None}
        added = gateway.http.post("/admin/instances", json=body, headers=ADMIN)
        assert added.status_code == 201
        ill = named(gateway, "a")
        gateway.call(lambda: gateway.gateway.pool.checked(ill, False, "ill"))
        assert queued.result(20).headers["x-routebalance-instance"] == "b"
        gate.open()
        assert sent.result(20).headers["x-routebalance-instance"] == "a"
    gateway.wait_until_idle()


def test_an_instance_that_is_gone_when_the_decision_arrives(upstreams, gateways) -> None:
    """And its number has another owner by then: nothing is sent there without being accounted."""
    gate = Gate()
    old, new = upstreams(polite, held(gate, polite))
    gateway = gateways([old])
    numbers: list[int] = []
    route = Balancer.route

    async def late(self: Balancer, request: RouteRequest) -> Routed:
        routed = await route(self, request)
        numbers.append(routed.instance)
        own = gateway.gateway
        if own.pool.named("a") is not None:
            spec = own.deployment.gateway.instances[0]
            own.remove(named(gateway, "a"))
            fields = {"name": "n", "url": new.url}
            other = own.add(type(spec)(**{**_fields(spec), **fields}), "body")
            numbers.append(other.number)
        return routed

    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(1) as threads:
        patch.setattr(Balancer, "route", late)
        asked = threads.submit(gateway.chat)
        new.wait_for(1)
        assert len(set(numbers)) == 1, "the number was used again"
        assert gateway.in_flight()["n"][0] == 1
        gate.open()
        assert asked.result(20).headers["x-routebalance-instance"] == "n"
    assert len(numbers) == 3, "it was decided anew"
    assert not old.exchanges
    assert gateway.metric("trgateway_decisions_total") == 1
    gateway.wait_until_idle()


def _fields(spec: Any) -> dict[str, Any]:
    return {name: getattr(spec, name) for name in spec.__struct_fields__}


def test_too_long_for_one_is_too_long_for_all_as_narrow(upstreams, gateways) -> None:
    servers = upstreams(*[always(400, TOO_LONG)] * 3, polite)
    models = [{"name": "n", "context": 512}, {"name": "w", "context": 4096, "price_out": 9}]
    entries = [
        {"name": f"{model}{at}", "model": model, "url": server.url, "metrics_path": None}
        for at, (model, server) in enumerate(zip("nnnw", servers, strict=True))
    ]
    gateway = gateways([], models=models, instances=entries, weights="cost", retries={"budget": 1})
    answer = gateway.chat(max_tokens=1)
    assert (answer.status_code, answer.headers["x-routebalance-instance"]) == (200, "w3")
    assert sum(len(server.exchanges) for server in servers) == 2


def test_progress_is_told_however_many_tokens_come_at_once(upstreams, gateways) -> None:
    """In twos, of which none is a multiple of the 16 after which it is told."""
    pair = event(chat_chunk("x")) * 2
    gates = [Gate() for _ in range(24)]
    steps = [step for gate in gates for step in (gate, chunk(pair))]
    (server,) = upstreams(play(chunked_head(), chunk(FIRST), *steps, Gate()))
    gateway = gateways([server], models=[{"name": "small", "length": 64}])
    left = []
    with gateway.stream() as answer:
        pieces = answer.iter_bytes()
        assert next(pieces) == FIRST
        for gate in gates:
            gate.open()
            assert next(pieces) == pair
            left.append(gateway.in_flight()["a"][3])
    exact = [64 - (1 + 2 * pairs) for pairs in range(1, 25)]
    assert all(are <= told < are + 16 for are, told in zip(exact, left, strict=True))
    gateway.wait_until_idle()


@pytest.mark.parametrize(
    ("fields", "weights"),
    [({"routebalance": {"weights": "latency"}}, "latency"), ({"model": "cheap"}, "cost"), ({}, "")],
)
def test_regret_is_by_the_weights_of_the_decision(
    upstreams, gateways, monkeypatch, fields: dict[str, Any], weights: str
) -> None:
    gate = Gate()
    (server,) = upstreams(held(gate, polite))
    gateway = gateways(
        [server], weights="quality", aliases={"cheap": {"models": ["small"], "weights": "cost"}}
    )
    seen: list[Any] = []

    def estimate(terms: Any, used: Any, seconds: float) -> float:
        seen.append(used)
        return 0.0

    monkeypatch.setattr("trserve.gateway.request.ended_request.regret_estimate", estimate)
    policy: Any = gateway.gateway.balancing.policy
    with ThreadPoolExecutor(1) as threads:
        asked = threads.submit(gateway.chat, **fields)
        server.wait_for(1)
        gateway.call(lambda: setattr(policy, "weights", PRESETS["uniform"]))  # by an SLO, say
        gate.open()
        assert asked.result(20).status_code == 200
    gateway.wait_until_idle()
    assert seen == [PRESETS[weights or "quality"]]
