"""Instances that look alike take turns, whoever asks (24)."""

from __future__ import annotations

from collections import Counter

import pytest


@pytest.mark.parametrize("policy", ["route-balance", "shortest-queue", "round-robin"])
def test_one_request_after_the_other_is_spread_evenly(upstreams, gateways, policy: str) -> None:
    """Each finds all instances idle; the same prompt, no session, and yet not the same instance."""
    servers = upstreams(count=7)
    gateway = gateways(servers, policy=policy)
    names = [gateway.chat().headers["x-routebalance-instance"] for _ in range(28)]
    assert set(Counter(names).values()) == {4}
    assert [len(server.exchanges) for server in servers] == [4] * 7


def test_so_are_streams_and_different_prompts(upstreams, gateways) -> None:
    servers = upstreams(count=5)
    gateway = gateways(servers)
    for number in range(25):
        gateway.chat(stream=number % 2 == 0, messages=[{"role": "user", "content": "x" * number}])
    assert [len(server.exchanges) for server in servers] == [5] * 5


def test_models_that_look_alike_take_turns_too(upstreams, gateways) -> None:
    servers = upstreams(count=2)
    gateway = gateways(
        servers,
        models=[{"name": "one"}, {"name": "two"}],
        instances=[
            {"name": name, "model": name, "url": server.url, "metrics_path": None}
            for name, server in zip(("one", "two"), servers, strict=True)
        ],
    )
    for _ in range(10):
        gateway.chat()
    assert [len(server.exchanges) for server in servers] == [5, 5]
