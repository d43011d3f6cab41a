"""In lockstep one model steps at a time, and none before every active request waits."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from tests.support.trsched.groups import profile_config, request
from trsched.engines.base import StepResult
from trsched.engines.profile import ProfileEngine
from trsched.errors import EngineError
from trsched.group import Group
from trsched.hosts.thread_host import ThreadHost
from trsched.plan.check import check_group
from trsched.plan.config import ProfileModel


class Watched(ProfileEngine):
    """Notes who steps how many."""

    def watch(self, index: int, stepping: threading.Lock, seen: list[tuple[int, int]]) -> None:
        self.index, self.stepping, self.seen, self.broken = index, stepping, seen, False

    def step(self, seqs: Sequence[int]) -> StepResult:
        assert self.stepping.acquire(blocking=False), "two models step at once"
        try:
            self.seen.append((self.index, len(seqs)))
            if self.broken:
                raise EngineError("the test broke this engine")
            return super().step(seqs)
        finally:
            self.stepping.release()


def watched_group(router: str, models: int) -> tuple[Group, list[Watched], list[tuple[int, int]]]:
    config = profile_config(router, models=models, execution="lockstep", step_ms=0.2)
    plan = check_group(config)
    stepping, seen = threading.Lock(), list[tuple[int, int]]()
    engines = []
    for index, model in enumerate(config.models):
        assert isinstance(model, ProfileModel)
        engine = Watched(model, "x", index=index, sequences=8, context=256)
        engine.watch(index, stepping, seen)
        engines.append(engine)
    return Group(plan, ThreadHost(plan, engines)), engines, seen


@pytest.mark.parametrize(("router", "models"), [("bernoulli", 2), ("me", 2), ("me", 3)])
def test_one_round_holds_all_requests(router: str, models: int) -> None:
    group, _, seen = watched_group(router, models)
    streams = [group.submit(request(seed, 40)) for seed in range(4)]
    assert [len(stream.result()[0]) for stream in streams] == [40] * 4
    group.close()
    assert [subserver.alive for subserver in group.status().subservers] == [True] * models
    if router == "bernoulli":  # whatever leaves model 0 is back before model 0 goes on
        sizes = [size for index, size in seen if index == 0]
        full = sizes[sizes.index(4) :]
        assert full == sorted(full, reverse=True)
        assert len(full) > 20


def test_an_abort_ends_the_wait_for_it() -> None:
    group, _, _ = watched_group("bernoulli", 2)
    streams = [group.submit(request(seed, 60)) for seed in range(6)]
    for stream in streams[::2]:
        next(iter(stream))
        group.abort(stream)
    assert [len(stream.result()[0]) for stream in streams[1::2]] == [60] * 3
    assert group.drain(20)
    group.close()


def test_a_model_that_dies_is_not_waited_for() -> None:
    group, engines, _ = watched_group("bernoulli", 2)
    streams = [group.submit(request(seed, 200)) for seed in range(4)]
    next(iter(streams[0]))
    engines[1].broken = True
    assert all(stream.result()[1].reason == "length" for stream in streams)
    group.close()
