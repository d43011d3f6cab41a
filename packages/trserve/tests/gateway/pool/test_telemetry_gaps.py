"""Telemetry that is missing or wrong is seen, and balancing goes on by the gateway's own account
(26).
"""

from __future__ import annotations

import math
from contextlib import ExitStack
from typing import Any

import pytest

from tests.support.gateway.gate import Gate
from tests.support.gateway.metrics_pages import VLLM
from tests.support.gateway.upstream_answers import (
    always,
    dribble,
    hang,
    held,
    polite,
    raw,
)
from tests.support.waiting import until

GAPS = {
    "404": (always(404), "status 404"),
    "garbage": (always(200, b"\x00\xff nonsense", kind="text/plain"), "without a known"),
    "html": (always(200, b"<html>", kind="text/html"), "without a known"),
    "hung": (hang, "within"),
    "endless": (dribble, "within"),
    "closed": (raw(b""), "metrics page"),
}
CHECKS = {"health_s": 60, "telemetry_s": 0.02, "telemetry_timeout_s": 0.2}


@pytest.fixture
def shown(upstreams, gateways):
    """A gateway in front of one instance for each gap, and one without."""
    gate = Gate()
    servers = upstreams(*[held(gate, polite)] * (len(GAPS) + 1))
    for server, (page, _) in zip(servers, GAPS.values(), strict=False):
        server.pages["/metrics"] = page
    servers[-1].pages["/metrics"] = always(200, b"vllm:num_requests_running 0\n")
    gateway = gateways(servers, each={"metrics_path": "/metrics"}, checks=CHECKS)
    return gate, servers, gateway


def failed(gateway, name: str) -> dict[str, Any]:
    """Its report, once telemetry has failed."""
    until(lambda: gateway.instances()[name]["telemetry_failure"])
    report: dict[str, Any] = gateway.instances()[name]
    return report


def test_it_is_visible(shown) -> None:
    _, servers, gateway = shown
    *gaps, good = gateway.instances()
    until(lambda: gateway.instances()[good]["telemetry_age_s"] is not None)
    for name, (_, why) in zip(gaps, GAPS.values(), strict=True):
        report = failed(gateway, name)
        assert why in report["telemetry_failure"]
        assert report["telemetry_age_s"] is None
        assert report["state"] == "up"
        age = gateway.metric("trgateway_instance_telemetry_age_seconds", instance=name)
        assert age == math.inf
    assert gateway.metric("trgateway_instance_telemetry_age_seconds", instance=good) < 20
    assert len(servers) == len(gaps) + 1


def test_the_own_account_goes_on(shown) -> None:
    gate, servers, gateway = shown
    with ExitStack() as stack:
        for _ in range(3 * len(servers)):
            stack.enter_context(gateway.sent())
        until(lambda: sum(len(server.exchanges) for server in servers) == 3 * len(servers))
        assert [len(server.exchanges) for server in servers] == [3] * len(servers)
        gate.open()
        gateway.wait_for_responses(3 * len(servers))
    gateway.wait_until_idle()


def test_one_that_stops_answering_does_not_look_idle(upstreams, gateways) -> None:
    """What it said last counts on, visibly old; what it has of others isn't forgotten at once."""
    busy, idle = upstreams(count=2)
    busy.pages["/metrics"] = always(200, VLLM)
    idle.pages["/metrics"] = always(200, b"vllm:num_requests_running 0\n")
    gateway = gateways([busy, idle], each={"metrics_path": "/metrics"}, checks=CHECKS)
    until(lambda: all(each["telemetry_age_s"] is not None for each in gateway.instances().values()))
    report = gateway.instances()["a"]
    assert (report["running"], report["waiting"]) == (21, 3)
    busy.pages["/metrics"] = hang
    until(lambda: gateway.instances()["a"]["telemetry_failure"])
    assert {gateway.chat().headers["x-routebalance-instance"] for _ in range(8)} == {"b"}
    assert gateway.instances()["a"]["running"] == 21
    age = gateway.instances()["a"]["telemetry_age_s"]
    until(lambda: gateway.instances()["a"]["telemetry_age_s"] > age)


def test_a_good_reading_ends_the_failure(upstreams, gateways) -> None:
    (server,) = upstreams(count=1)
    server.pages["/metrics"] = always(503)
    gateway = gateways([server], each={"metrics_path": "/metrics"}, checks=CHECKS)
    assert "status 503" in failed(gateway, "a")["telemetry_failure"]
    server.pages["/metrics"] = always(200, VLLM)
    until(lambda: gateway.instances()["a"]["running"] == 21)
    report = gateway.instances()["a"]
    assert (report["telemetry"], report["telemetry_failure"]) == ("vllm", "")
