"""Requests that name the one model that writes them, beside requests that are routed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.trsched.client_desk import PROMPT, Desk, step
from tests.support.trsched.gate_engine import Gate
from tests.support.trsched.groups import gate_group, profile_config, request
from tests.support.trsched.lifecycle_scenes import ALWAYS, OpenGroup, assert_one_final
from tests.support.trsched.process_gate import process_gate_group
from tests.support.waiting import until
from trrouters import BaseRouter, RouterContext, RouteResult
from trrouters.route_result import Destinations
from trsched.engines.profile import profile_token
from trsched.group import Group
from trsched.loops.stream import Stream
from trsched.plan.config import GroupConfig, ProfileModel
from trsched.request import FinalEvent
from trsched.wire.messages import Admit, Died, Release

LONG = 200


@pytest.fixture(params=["threads", "processes"])
def open_group(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[OpenGroup]:
    opened: list[tuple[Group, list[Gate]]] = []

    def open_one(config: GroupConfig) -> tuple[Group, list[Gate]]:
        if request.param == "processes":
            opened.append(process_gate_group(config, tmp_path, monkeypatch))
        else:
            group, engines = gate_group(config)
            opened.append((group, list(engines)))
        return opened[-1]

    yield open_one
    for group, engines in opened:
        for engine in engines:
            engine.let_go()
        group.close()


def assert_made_by(stream: Stream, config: GroupConfig, model: int) -> FinalEvent:
    """The tokens are those of that model alone, and nothing was handed over."""
    tokens, final = stream.result()
    assert (final.reason, final.handoffs, final.degraded) == ("length", 0, False)
    profile = config.models[model]
    assert isinstance(profile, ProfileModel)
    seed, prompt = stream.request.sampling.seed, len(stream.request.prompt_ids)
    for position, token in enumerate(tokens):
        expected = profile_token(profile, model, seed, prompt + position)
        assert (token.position, token.model, token.token_id) == (position, model, expected)
    return final


@pytest.mark.parametrize("model", [0, 1])
def test_only_the_named_model_steps(open_group: OpenGroup, model: int) -> None:
    config = profile_config("bernoulli", ALWAYS)
    group, engines = open_group(config)
    assert_made_by(group.submit(request(1, only=model)), config, model)
    assert engines[1 - model].entered == 0
    engines[model].wait_for(lambda engine: engine.used == 0)


@pytest.mark.parametrize("model", [0, 1, 2])
def test_an_ensemble_does_not_draw_for_it(model: int) -> None:
    config = profile_config("me", models=3)
    group, _ = gate_group(config)
    try:
        for seed in range(4):
            assert_made_by(group.submit(request(seed, only=model)), config, model)
    finally:
        group.close()


# --- delayed batching


def test_it_waits_for_nobody(open_group: OpenGroup) -> None:
    """Model 1 would wait for three; the routed ones are held up in model 0."""
    config = profile_config("bernoulli", {"p": 0.0}, thresholds=[1, 3])
    group, engines = open_group(config)
    engines[0].hold()
    routed = [group.submit(request(seed)) for seed in range(3)]
    assert_made_by(group.submit(request(7, only=1)), config, 1)
    engines[0].let_go()
    for stream in routed:
        assert not assert_one_final(stream, {"length"}).degraded  # model 0 has not died of waiting


def test_nobody_waits_for_it(open_group: OpenGroup) -> None:
    """Model 1 waits for three of four requests, but three of these four never come."""
    config = profile_config("bernoulli", {"p": 1.0, "q": 0.0}, thresholds=[1, 3])
    group, engines = open_group(config)
    engines[0].hold()
    bound = [group.submit(request(seed, LONG, only=0)) for seed in range(3)]
    routed = group.submit(request(7, 4))
    engines[0].let_go(steps=30)  # too few for the bound ones to end
    assert_one_final(routed, {"length"})
    assert group.status().active == 3
    engines[0].let_go()
    for stream in bound:
        assert_made_by(stream, config, 0)


def test_the_routing_estimate_does_not_see_it(open_group: OpenGroup) -> None:
    group, _ = open_group(profile_config("bernoulli", ALWAYS))
    bound = [group.submit(request(seed, only=seed % 2)) for seed in range(6)]
    routed = group.submit(request(7, 5))
    for stream in [*bound, routed]:
        assert_one_final(stream, {"length"})
    assert group.drain(20)
    until(lambda: sum(each.tokens_committed for each in group.status().subservers) == 6 * 8 + 5)
    small, large = (each.step_counters for each in group.status().subservers)
    until(lambda: sum(large.tokens) >= 5)  # counted once the step is reported
    assert (list(large.moves), list(large.tokens)) == ([5, 0], [5, 0])
    assert (list(small.moves), list(small.tokens)) == ([0, 5], [0, 0])


# --- ends


@pytest.mark.parametrize("abrupt", [True, False])
def test_the_death_of_its_model_ends_it(abrupt: bool) -> None:
    """Those that are routed go on, degraded."""
    desk = Desk()
    stream, handle = bound(desk, 1)
    _, routed = desk.admit(seed=2)
    desk.report(step(handle, 0, model=1), step(routed, 0, owner=1), Died(1, "gone", abrupt))
    assert desk.delivered[stream][-1] == FinalEvent("error", error="model 1 died")
    assert desk.loop.active == 1
    late = Stream(request(only=1))
    assert desk.loop.submit(late, limit=1)
    desk.loop.turn()
    assert desk.delivered[late] == [FinalEvent("error", error="model 1 is down")]
    assert (desk.active.value, desk.active.routed) == (1, 1)


@pytest.mark.parametrize("degrade", [True, False])
@pytest.mark.parametrize("models", [2, 3])
def test_the_death_of_another_model_is_nothing_to_it(models: int, degrade: bool) -> None:
    """Also where all that are routed end: who has this one is certain."""
    desk = Desk(models=models, degrade=degrade)
    stream, handle = bound(desk, 0)
    desk.report(step(handle, 0), Died(1, "killed", abrupt=True))
    desk.report(step(handle, 1, finish=2))
    assert desk.delivered[stream][-1] == FinalEvent("length")
    assert (desk.active.value, desk.active.routed) == (0, 0)


def test_models_that_it_never_comes_to_are_not_told_of_it() -> None:
    desk = Desk(models=3)
    stream = Stream(request(only=1, threshold=None))
    assert desk.loop.submit(stream, limit=1)
    desk.loop.turn()
    (admit,) = desk.inbox(1)
    assert isinstance(admit, Admit)
    assert (admit.entry, admit.stays, admit.prompt_ids) == (1, True, PROMPT)
    assert desk.inbox(0) == desk.inbox(2) == []
    desk.loop.abort(stream, "abort")
    desk.loop.turn()
    assert desk.inbox(1) == [Release(admit.handle)]


def bound(desk: Desk, model: int) -> tuple[Stream, int]:
    stream = Stream(request(only=model))
    assert desk.loop.submit(stream, limit=1)
    desk.loop.turn()
    (admit,) = desk.inbox(model)
    assert isinstance(admit, Admit)
    return stream, admit.handle


@pytest.mark.parametrize("dying", [0, 1])
def test_killed_models(open_group: OpenGroup, dying: int) -> None:
    config = profile_config("bernoulli", {"p": 0.5})
    group, engines = open_group(config)
    for engine in engines:
        engine.hold()
    lost, spared = (group.submit(request(3, only=model)) for model in (dying, 1 - dying))
    for engine in engines:
        engine.wait_for(lambda engine: engine.entered == 1)
    engines[dying].break_down()
    final = assert_one_final(lost, {"error"})
    assert (final.error, final.degraded) == (f"model {dying} died", False)
    engines[1 - dying].let_go()
    assert_made_by(spared, config, 1 - dying)


@pytest.mark.parametrize("end", ["abort", "deadline", "shutdown"])
def test_other_ends(open_group: OpenGroup, end: str) -> None:
    group, engines = open_group(profile_config("bernoulli", ALWAYS))
    engines[1].hold()
    victim = group.submit(request(1, only=1, timeout_s=0.1 if end == "deadline" else None))
    engines[1].wait_for(lambda engine: engine.entered == 1)
    if end == "abort":
        group.abort(victim)
    if end == "shutdown":
        engines[1].let_go(steps=1)
        group.close()
    assert_one_final(victim, {end})
    engines[1].let_go()
    if end != "shutdown":
        engines[1].wait_for(lambda engine: engine.used == 0)
        assert_one_final(group.submit(request(9)), {"length"})


# --- a router that fails


class Failing(BaseRouter):
    asked = 0

    def route(self, result: RouteResult) -> Destinations:
        Failing.asked += 1
        raise ZeroDivisionError

    def entry(self, seed: int) -> int:
        raise ZeroDivisionError


def test_a_failing_router_is_nothing_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not even asked, unless others are in the batch."""
    made: list[Any] = []

    def create(name: str, context: RouterContext, settings: dict[str, Any]) -> BaseRouter:
        made.append(name)
        return Failing(context)

    monkeypatch.setattr("trsched.plan.check_routers.create_router", create)
    monkeypatch.setattr(Failing, "entry", BaseRouter.entry)
    config = profile_config("bernoulli", ALWAYS)
    group, engines = gate_group(config)
    try:
        assert made
        assert_made_by(group.submit(request(1, only=0)), config, 0)
        assert Failing.asked == 0
        engines[0].hold()
        bound, routed = group.submit(request(1, only=0)), group.submit(request(2))
        engines[0].let_go()
        assert "router failed" in (assert_one_final(routed, {"error"}).error or "")
        assert_made_by(bound, config, 0)
        assert Failing.asked > 0
    finally:
        group.close()
