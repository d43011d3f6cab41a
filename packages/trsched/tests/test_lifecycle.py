"""Every state of a request × every cause of its end: one final event, all KV free again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.trsched.gate_engine import Gate
from tests.support.trsched.groups import gate_group, profile_config, request
from tests.support.trsched.lifecycle_scenes import (
    ALWAYS,
    STATES,
    OpenGroup,
    Scene,
    assert_clean,
    assert_one_final,
)
from tests.support.trsched.process_gate import process_gate_group
from trsched.group import Group
from trsched.plan.config import GroupConfig


@pytest.fixture(params=["threads", "processes"])
def open_group(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> OpenGroup:
    if request.param == "threads":
        return in_threads
    return lambda config: process_gate_group(config, tmp_path, monkeypatch)


def in_threads(config: GroupConfig) -> tuple[Group, list[Gate]]:
    group, engines = gate_group(config)
    return group, list(engines)


@pytest.fixture(params=STATES, ids=lambda state: state.__name__)
def state(
    open_group: OpenGroup, request: pytest.FixtureRequest
) -> Iterator[Callable[[float | None], Scene]]:
    scenes: list[Scene] = []

    def build(timeout_s: float | None = None) -> Scene:
        scenes.append(request.param(open_group, timeout_s))
        return scenes[-1]

    yield build
    for scene in scenes:
        for engine in scene.engines:
            engine.let_go()
        scene.group.close()


def test_abort(state: Callable[..., Scene]) -> None:
    scene = state()
    scene.group.abort(scene.victim)
    assert_one_final(scene.victim, {"abort"})
    scene.group.abort(scene.victim)  # a second time does nothing
    assert_clean(scene)


def test_deadline(state: Callable[..., Scene]) -> None:
    scene = state(0.1)
    assert_one_final(scene.victim, {"deadline"})
    assert_clean(scene)


def test_shutdown(state: Callable[..., Scene]) -> None:
    scene = state()
    closing = threading.Thread(target=scene.group.close)
    closing.start()
    assert_one_final(scene.victim, {"shutdown"})
    for other in scene.others:
        assert_one_final(other, {"shutdown"})
    for engine in scene.engines:
        engine.let_go()
    closing.join(20)
    assert not closing.is_alive()
    assert scene.group.status().active == 0


@pytest.mark.parametrize("dying", [0, 1])
def test_death_of_a_model(state: Callable[..., Scene], dying: int) -> None:
    """The request goes on with the model that is left, marked degraded."""
    scene = state()
    survivor = scene.engines[1 - dying]
    scene.engines[dying].break_down()
    survivor.let_go()
    final = assert_one_final(scene.victim, {"length"})
    assert final.degraded
    for other in scene.others:
        assert_one_final(other, {"length"})
    survivor.wait_for(lambda engine: engine.used == 0)
    assert_one_final(scene.group.submit(request(9)), {"length"})  # new ones are served, too
    assert [s.alive for s in scene.group.status().subservers] == [dying != 0, dying != 1]


@pytest.mark.parametrize(
    ("router", "settings", "models", "more"),
    [
        ("bernoulli", ALWAYS, 2, {"on_peer_death": "fail"}),
        ("me", {"weights": [0.0, 1.0]}, 2, {}),
        ("me", {"weights": [0.0, 1.0, 0.0]}, 3, {}),
    ],
    ids=["configuration", "router", "three-models"],
)
def test_death_ends_requests_that_may_not_go_on(
    open_group: OpenGroup, router: str, settings: dict[str, Any], models: int, more: dict[str, Any]
) -> None:
    group, engines = open_group(profile_config(router, settings, models=models, **more))
    try:
        engines[1].hold()
        victim = group.submit(request(1))
        engines[1].wait_for(lambda engine: engine.entered == 1)
        engines[1].break_down()
        final = assert_one_final(victim, {"error"})
        assert "model 1" in (final.error or "")
        assert_one_final(group.submit(request(2)), {"error"})  # nor do new ones that need it
        engines[0].wait_for(lambda engine: engine.used == 0)
    finally:
        group.close()
