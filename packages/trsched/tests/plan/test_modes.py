"""Modes change the configuration and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace as changed

from tests.support.trsched.groups import profile_config, request
from trsched.errors import ConfigError
from trsched.group import Group
from trsched.plan.check import check_group
from trsched.plan.config import GroupConfig
from trsched.plan.modes import in_mode
from trsched.request import TokenEvent


def pair(mode: str, **group: Any) -> GroupConfig:
    return profile_config("bernoulli", {"p": 0.5}, thresholds=[1, 3], mode=mode, **group)


def test_routed_is_the_configuration_itself() -> None:
    assert in_mode(pair("routed")) == pair("routed")


@pytest.mark.parametrize(("mode", "name"), [("slm-only", "m0"), ("llm-only", "m1")])
def test_one_model_has_all_memory(mode: str, name: str) -> None:
    plan = check_group(pair(mode, max_active=None))
    assert [model.name for model in plan.config.models] == [name]
    assert plan.kv.sequences == min(
        256, 2 * check_group(pair("routed", max_active=None)).kv.sequences
    )


@pytest.mark.parametrize("mode", ["slm-only", "llm-only"])
def test_one_model_serves(mode: str) -> None:
    group = Group.open(pair(mode))
    tokens, final = group.submit(request(1, 20)).result()
    group.close()
    assert len(tokens) == 20
    assert {token.model for token in tokens} == {0}
    assert final.handoffs == 0


def test_official_serves_one_request_after_another() -> None:
    delivered: list[object] = []
    group = Group.open(
        pair("official"), deliver=lambda batch: delivered.extend(e for _, es in batch for e in es)
    )
    for seed in range(4):
        group.submit(request(seed, 10))
    assert group.drain(20)
    group.close()
    tokens = [event.position for event in delivered if isinstance(event, TokenEvent)]
    assert tokens == list(range(10)) * 4
    for subserver in group.status().subservers:
        assert list(subserver.batch_size.counts) == [subserver.steps] + [0] * 8


def test_a_mode_is_checked() -> None:
    with pytest.raises(ConfigError, match="mode"):
        pair("fast")
    with pytest.raises(ConfigError, match="threshold"):
        check_group(changed(pair("routed"), max_active=2))
    check_group(changed(pair("llm-only"), max_active=4))
