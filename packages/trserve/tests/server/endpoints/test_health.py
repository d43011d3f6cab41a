"""`GET /health` by the state of the group."""

from __future__ import annotations

from tests.support.trserve.demo_server import Demo


def test_health(own_demo: Demo) -> None:
    group = own_demo.group
    answer = own_demo.http.get("/health")
    assert answer.status_code == 200
    assert answer.json()["status"] == "ok"
    assert [each["name"] for each in answer.json()["subservers"]] == ["small", "large"]
    group.alive[1] = False
    answer = own_demo.http.get("/health")
    assert (answer.status_code, answer.json()["status"]) == (200, "degraded")
    group.draining = True
    answer = own_demo.http.get("/health")
    assert (answer.status_code, answer.json()["status"]) == (503, "draining")
    group.alive[0] = False
    answer = own_demo.http.get("/health")
    assert (answer.status_code, answer.json()["status"]) == (503, "unavailable")
