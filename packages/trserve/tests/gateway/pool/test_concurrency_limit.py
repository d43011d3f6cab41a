"""`concurrency` of an instance: the others wait in the gateway, in their order."""

from __future__ import annotations

from contextlib import ExitStack

from tests.support.gateway.gate import Gate
from tests.support.gateway.upstream_answers import always, held, polite
from tests.support.waiting import until


def wait_for_waiting(gateway, count: int) -> None:
    until(lambda: gateway.in_flight()["a"][0] == count)


def test_no_more_than_allowed_are_sent(upstreams, gateways) -> None:
    gates = [Gate() for _ in range(7)]

    async def one_by_one(exchange) -> None:
        await held(gates[exchange.json["seed"]], polite)(exchange)

    (server,) = upstreams(one_by_one)
    gateway = gateways([server], each={"concurrency": 2})
    with ExitStack() as stack:
        for number in range(7):
            stack.enter_context(gateway.sent(seed=number))
            wait_for_waiting(gateway, number + 1)
        assert [exchange.json["seed"] for exchange in server.wait_for(2)] == [0, 1]
        for number, gate in enumerate(gates):
            gate.open()
            gateway.wait_for_responses(number + 1)
            server.wait_for(min(7, number + 3))
    assert [exchange.json["seed"] for exchange in server.exchanges] == list(range(7))
    assert server.most_open == 2
    gateway.wait_until_idle()


def test_a_failure_gives_its_turn_back(upstreams, gateways) -> None:
    servers = upstreams(always(500), always(500))
    gateway = gateways(servers, each={"concurrency": 1}, retries={"budget": 1})
    for _ in range(8):
        assert gateway.chat().status_code == 500
    gateway.wait_until_idle()


def test_instances_with_room_are_preferred(upstreams, gateways) -> None:
    gate = Gate()
    servers = upstreams(held(gate, polite), held(gate, polite))
    gateway = gateways(servers, each={"concurrency": 2, "slots": 2})
    with ExitStack() as stack:
        for _ in range(4):
            stack.enter_context(gateway.sent())
        until(lambda: [server.open for server in servers] == [2, 2])
        gate.open()
        gateway.wait_for_responses(4)


def test_the_gateway_takes_no_more_than_max_waiting(upstreams, gateways) -> None:
    gate = Gate()
    (server,) = upstreams(held(gate, polite))
    gateway = gateways([server], max_waiting=2)
    with gateway.sent(), gateway.sent():
        server.wait_for(2)
        answer = gateway.chat()
        assert (answer.status_code, answer.json()["error"]["code"]) == (429, "queue_full")
        assert answer.headers["retry-after"]
        gate.open()
        gateway.wait_for_responses(3)
    gateway.wait_until_idle()
    assert gateway.chat().status_code == 200
