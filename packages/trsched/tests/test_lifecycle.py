"""Every state of a request × every cause of its end: one final event, all KV free again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from packages.trsched.tests.gate_engine import Gate
from packages.trsched.tests.groups import gate_group, profile_config, request
from packages.trsched.tests.process_gate import process_gate_group
from packages.trsched.tests.waiting import until
from trrouters.draws import ROUTING_STREAM, uniform
from trsched.config import GroupConfig
from trsched.group import Group
from trsched.request import FinalEvent, TokenEvent
from trsched.stream import Stream


@dataclass
class Scene:
    """A group held still, with `victim` in the state under test and `others` around it."""

    group: Group
    engines: list[Gate]
    victim: Stream
    others: list[Stream]


OpenGroup = Callable[[GroupConfig], tuple[Group, list[Gate]]]

ALWAYS = {"p": 1.0}  # every token of model 0 is dropped and made by model 1 instead


def queued(open_group: OpenGroup, timeout_s: float | None) -> Scene:
    """Waiting for admission: the group is full."""
    group, engines = open_group(profile_config("bernoulli", ALWAYS, max_active=1))
    engines[0].hold()
    first = group.submit(request(1))
    engines[0].wait_for(lambda engine: engine.entered == 1)
    return Scene(group, engines, group.submit(request(2, timeout_s=timeout_s)), [first])


def running(open_group: OpenGroup, timeout_s: float | None) -> Scene:
    """In the batch that steps."""
    group, engines = open_group(profile_config("bernoulli", ALWAYS))
    engines[0].hold()
    victim = group.submit(request(1, timeout_s=timeout_s))
    engines[0].wait_for(lambda engine: engine.entered == 1)
    return Scene(group, engines, victim, [])


def in_client_ring(open_group: OpenGroup, timeout_s: float | None) -> Scene:
    """Admitted, in the inbox of an entry that is busy with another request."""
    group, engines = open_group(profile_config("bernoulli", ALWAYS))
    engines[0].hold()
    first = group.submit(request(1))
    engines[0].wait_for(lambda engine: engine.entered == 1)
    victim = group.submit(request(2, timeout_s=timeout_s))
    return Scene(group, engines, victim, [first])


def in_peer_ring(open_group: OpenGroup, timeout_s: float | None) -> Scene:
    """Handed over, in the inbox of a peer that is busy with another request."""
    group, engines = open_group(profile_config("bernoulli", ALWAYS))
    engines[1].hold()
    first = group.submit(request(1))
    engines[1].wait_for(lambda engine: engine.entered == 1)
    victim = group.submit(request(2, timeout_s=timeout_s))
    engines[0].wait_for(lambda engine: engine.entered == 2)
    return Scene(group, engines, victim, [first])


def pending(open_group: OpenGroup, timeout_s: float | None) -> Scene:
    """Pending at its entry while the peer steps it."""
    group, engines = open_group(profile_config("bernoulli", ALWAYS))
    engines[1].hold()
    victim = group.submit(request(1, timeout_s=timeout_s))
    engines[1].wait_for(lambda engine: engine.entered == 1)
    return Scene(group, engines, victim, [])


RATE = 0.05
LONG = 40


def in_delayed_buffer(open_group: OpenGroup, timeout_s: float | None) -> Scene:
    """Waits at the peer for a second request, while the only other one stays at model 0."""
    stays = next(seed for seed in count() if min(draws(seed)) >= RATE)
    leaves = next(seed for seed in count() if draws(seed)[0] < RATE)
    group, engines = open_group(profile_config("bernoulli", {"p": RATE}, thresholds=[1, 2]))
    engines[0].hold()
    first = group.submit(request(stays, LONG))
    engines[0].wait_for(lambda engine: engine.entered == 1)
    victim = group.submit(request(leaves, timeout_s=timeout_s))
    until(lambda: group.status().active == 2)  # else `first` may end before the victim has begun
    while group.status().subservers[0].handoffs_sent == 0:
        step_once(engines[0])
    until(lambda: group.status().subservers[1].waiting == 1)
    assert engines[1].entered == 0
    return Scene(group, engines, victim, [first])


def step_once(engine: Gate) -> None:
    entered = engine.entered
    engine.let_go(steps=1)
    engine.wait_for(lambda engine: engine.entered > entered)


def draws(seed: int) -> list[float]:
    return [uniform(seed, position, ROUTING_STREAM) for position in range(5, 5 + LONG)]


STATES = [queued, running, in_client_ring, in_peer_ring, pending, in_delayed_buffer]


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


def assert_one_final(stream: Stream, reasons: set[str]) -> FinalEvent:
    tokens, final = stream.result()
    assert final.reason in reasons, final
    assert [token.position for token in tokens] == list(range(len(tokens)))
    assert all(isinstance(token, TokenEvent) for token in tokens)
    assert stream.drained()
    return final


def assert_clean(scene: Scene) -> None:
    """The others end as they should; then nothing is left anywhere."""
    for engine in scene.engines:
        engine.let_go()
    for other in scene.others:
        assert_one_final(other, {"length"})
    for engine in scene.engines:
        engine.wait_for(lambda engine: engine.used == 0)
    status = scene.group.status()
    assert (status.active, status.queued) == (0, 0)
    # A new request on the same slots still works.
    assert_one_final(scene.group.submit(request(9)), {"length"})


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
