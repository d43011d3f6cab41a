"""Every state of a request on SGLang × abort and deadline: one final event, all KV free again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.sglang_groups.tiny_group import tiny_config
from tests.support.trsched.gate_engine import Gate
from tests.support.trsched.groups import profile_config, request
from tests.support.trsched.lifecycle_scenes import (
    ALWAYS,
    STATES,
    OpenGroup,
    Scene,
    assert_clean,
    assert_one_final,
    step_once,
)
from tests.support.trsched.process_gate import new_gates, process_gate_group
from tests.support.waiting import until
from trsched.group import Group
from trsched.hosts.process_host import ProcessHost
from trsched.plan.config import GroupConfig

pytestmark = pytest.mark.slow

CHUNK = 16
LONG_PROMPT = bytes(range(1, 101))
TIMEOUT_S = 2.0
"""Longer than it takes to come into any of the states."""


def reading(open_group: OpenGroup, timeout_s: float | None) -> Scene:
    """Has read a part of its prompt."""
    group, engines = open_group(profile_config("bernoulli", ALWAYS))
    engines[0].hold()
    victim = group.submit(request(1, prompt=LONG_PROMPT, timeout_s=timeout_s))
    engines[0].wait_for(lambda engine: engine.entered == 1)
    step_once(engines[0])
    step_once(engines[0])
    until(lambda: 0 < group.status().subservers[0].kv_tokens_used < len(LONG_PROMPT))
    return Scene(group, engines, victim, [])


@pytest.fixture(scope="module")
def open_group(
    pair: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OpenGroup]:
    """The tiny pair with router and thresholds of a scene; a group serves all scenes it fits."""
    opened: dict[str, tuple[Group, Path]] = {}

    with pytest.MonkeyPatch.context() as patch:

        def open_or_reuse(scene: GroupConfig) -> tuple[Group, list[Gate]]:
            small, large = scene.models
            config = tiny_config(
                pair,
                scene.router.name,
                scene.router.settings,
                thresholds=(small.threshold, large.threshold),
                max_active=scene.max_active,
                chunk=CHUNK,
            )
            key = repr(config)
            if key not in opened:
                folder = tmp_path_factory.mktemp("gates")
                opened[key] = process_gate_group(config, folder, patch)[0], folder
            group, folder = opened[key]
            assert isinstance(group.host, ProcessHost)
            return group, new_gates(config, group.host, folder)

        yield open_or_reuse
    for group, _ in opened.values():
        group.close()


@pytest.fixture(params=[*STATES, reading], ids=lambda state: state.__name__)
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


def test_abort(state: Callable[..., Scene]) -> None:
    scene = state()
    scene.group.abort(scene.victim)
    assert_one_final(scene.victim, {"abort"})
    assert_clean(scene)
    assert_no_kv(scene.group)


def test_deadline(state: Callable[..., Scene]) -> None:
    scene = state(TIMEOUT_S)
    assert_one_final(scene.victim, {"deadline"})
    assert_clean(scene)
    assert_no_kv(scene.group)


def assert_no_kv(group: Group) -> None:
    """On either model, a moment after the last request's client was told."""
    until(lambda: not any(s.sequences_used or s.kv_tokens_used for s in group.status().subservers))
    assert all(subserver.alive for subserver in group.status().subservers)
