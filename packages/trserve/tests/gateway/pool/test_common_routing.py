"""Which names of `/v1/models` have a `tokenrouter`, as instances come and go."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.gateway.gate import Gate
from tests.support.gateway.gateway_parts import group_server
from tests.support.gateway.running_gateway import ADMIN, RunningGateway
from tests.support.gateway.scripted_upstream import ScriptedUpstream
from tests.support.gateway.upstream_answers import (
    DONE,
    LAST_CHUNK,
    chat_events,
    chunk,
    chunked_head,
    play,
)

GROUPS = ("pair", "twin", "other", "fixed")


@pytest.fixture
def server(upstreams) -> ScriptedUpstream:
    made: list[ScriptedUpstream] = upstreams(count=1)
    return made[0]


@pytest.fixture
def gateway(gateways, server) -> RunningGateway:
    """With groups that are said to run, and no instance yet."""
    gateway: RunningGateway = gateways(
        [],
        models=[{"name": "both"}, {"name": "alone"}],
        groups=[{"name": name, "preset": "profile-demo"} for name in GROUPS],
        aliases={"any": {"models": ["alone", "both"]}},
    )
    gateway.gateway.pool.groups.update(
        pair=group_server(server.url),
        twin=group_server(server.url, value=0.4),
        other=group_server(server.url, "small", "medium"),
        fixed=group_server(server.url, value=None),
    )
    return gateway


def add(gateway: RunningGateway, name: str, **entry: Any) -> None:
    """An instance of `both`, unless the entry says otherwise."""
    body = {"name": name, "model": "both", "metrics_path": None, **entry}
    answer = gateway.http.post("/admin/instances", json=body, headers=ADMIN)
    assert answer.status_code == 201, answer.text


def routings(gateway: RunningGateway) -> dict[str, Any]:
    """By name, what `/v1/models` says, where it says something; each name alone says the same."""
    cards = gateway.http.get("/v1/models").json()["data"]
    assert cards == [gateway.http.get(f"/v1/models/{card['id']}").json() for card in cards]
    return {card["id"]: card["tokenrouter"] for card in cards if "tokenrouter" in card}


def values(gateway: RunningGateway) -> dict[str, float | None]:
    """By name, the threshold that holds."""
    return {name: each["threshold"]["value"] for name, each in routings(gateway).items()}


@pytest.mark.parametrize(
    ("entries", "value"),
    [
        ([{"group": "pair"}], 0.2),
        ([{"group": "pair", "threshold": 0.0}], 0.0),
        ([{"group": "pair", "threshold": 0.3}, {"group": "pair", "threshold": 0.3}], 0.3),
        ([{"group": "pair"}, {"group": "pair", "threshold": 0.2}], 0.2),
        ([{"group": "pair"}, {"group": "pair", "threshold": 0.3}], None),
        ([{"group": "pair"}, {"group": "twin"}], None),
        ([{"group": "pair", "only": "large"}, {"group": "twin"}], 0.4),
    ],
)
def test_groups_that_route_alike(
    gateway: RunningGateway, entries: list[dict[str, Any]], value: float | None
) -> None:
    for at, entry in enumerate(entries):
        add(gateway, f"i{at}", **entry)
    threshold = {"name": "p", "value": value, "low": 0.0, "high": 1.0, "meaning": "A share."}
    routing = {"models": ["small", "large"], "router": "bernoulli", "threshold": threshold}
    assert routings(gateway) == dict.fromkeys(("auto", "any", "both"), routing)


@pytest.mark.parametrize(
    "entries",
    [
        [],
        [{"group": "pair", "only": "small"}],
        [{"group": "pair"}, {"url": "http://127.0.0.1:9"}],
        [{"group": "pair"}, {"group": "other"}],
        [{"group": "pair"}, {"group": "other", "only": "medium"}],
        [{"group": "pair"}, {"group": "fixed"}],
    ],
    ids=["nobody", "one model alone", "a server by URL", "models", "their models", "no threshold"],
)
def test_nothing_in_common(gateway: RunningGateway, entries: list[dict[str, Any]]) -> None:
    for at, entry in enumerate(entries):
        add(gateway, f"i{at}", **entry)
    assert routings(gateway) == {}


def test_a_router_without_a_threshold(gateway: RunningGateway) -> None:
    add(gateway, "a", group="fixed")
    assert routings(gateway)["both"] == {
        "models": ["small", "large"],
        "router": "bernoulli",
        "threshold": None,
    }


def test_it_follows_the_pool(gateway: RunningGateway, server: ScriptedUpstream) -> None:
    """A name of its own keeps it beside a server by URL; one that both may answer to does not."""
    add(gateway, "a", group="pair", threshold=0.3)
    assert values(gateway) == {"auto": 0.3, "any": 0.3, "both": 0.3}
    add(gateway, "b", group="pair", threshold=0.6)
    assert values(gateway) == {"auto": None, "any": None, "both": None}
    add(gateway, "c", model="alone", url=server.url)
    assert values(gateway) == {"both": None}
    for gone, left in (("a", {"both": 0.6}), ("c", {"auto": 0.6, "any": 0.6, "both": 0.6})):
        gateway.http.delete(f"/admin/instances/{gone}", headers=ADMIN)
        assert values(gateway) == left


def test_who_only_finishes_what_it_has_no_longer_counts(
    gateway: RunningGateway, server: ScriptedUpstream
) -> None:
    gate = Gate()
    events = chat_events(["a"])
    server.answer = play(chunked_head(), chunk(events[0]), gate, chunk(DONE) + LAST_CHUNK)
    add(gateway, "a", group="pair", threshold=0.3)
    add(gateway, "b", model="alone", url=server.url)
    with gateway.stream(model="alone") as answer:
        pieces = answer.iter_bytes()
        assert next(pieces) == events[0]
        gateway.http.delete("/admin/instances/b", headers=ADMIN)
        assert gateway.instances()["b"]["state"] == "draining"
        assert values(gateway) == {"auto": 0.3, "any": 0.3, "both": 0.3}
        gate.open()
        assert b"".join(pieces) == DONE


def test_where_it_is_missing_a_threshold_reaches_whoever_answers(
    gateway: RunningGateway, server: ScriptedUpstream
) -> None:
    """Which is why: a server by URL gets the object as it is, and may refuse it."""
    add(gateway, "a", model="alone", url=server.url)
    gateway.chat(model="alone", tokenrouter={"threshold": 0.7, "else": 1})
    add(gateway, "b", group="pair", threshold=0.3)
    gateway.chat(model="both", tokenrouter={"threshold": 0.7})
    told = [exchange.json["tokenrouter"] for exchange in server.exchanges]
    assert told == [{"threshold": 0.7, "else": 1}, {"threshold": 0.7}]
