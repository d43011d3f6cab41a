"""Ranks of one model: whatever is called on the first happens on all, in the same order."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.trsched.groups import profile_config
from trcore import PeerRing
from trsched.engines.base import StepResult
from trsched.engines.profile import ProfileEngine
from trsched.errors import EngineError
from trsched.hosts.ranks import LeaderEngine, follow
from trsched.plan.config import ProfileModel
from trsched.request import SamplingParams
from trsched.wire.patient_push import PATIENCE_S

SEQUENCES, CONTEXT = 3, 64


class NoTime:
    def now(self) -> float:
        return 0.0

    def sleep(self, seconds: float) -> None:
        pass


class Noting(ProfileEngine):
    """Notes the calls made, in order, and that it was closed."""

    def __init__(self, sequences: int = SEQUENCES, context: int = CONTEXT) -> None:
        model = profile_config("fixed").models[0]
        assert isinstance(model, ProfileModel)
        super().__init__(model, "x", index=0, sequences=sequences, context=context, clock=NoTime())
        self.calls: list[tuple[Any, ...]] = []
        self.closed = False

    def start(self, token_ids: Sequence[int], sampling: SamplingParams) -> int:
        seq = super().start(token_ids, sampling)
        self.calls.append(("start", list(token_ids), sampling, seq))
        return seq

    def append(self, seq: int, token_ids: Sequence[int]) -> None:
        super().append(seq, token_ids)
        self.calls.append(("append", seq, list(token_ids)))

    def step(self, seqs: Sequence[int]) -> StepResult:
        result = super().step(seqs)
        self.calls.append(("step", list(seqs), result.sampled.tolist()))
        return result

    def truncate(self, seq: int, length: int) -> None:
        super().truncate(seq, length)
        self.calls.append(("truncate", seq, length))

    def release(self, seq: int) -> None:
        super().release(seq)
        self.calls.append(("release", seq))

    def close(self) -> None:
        self.closed = True


def follow_until_error(engine: Noting, ring: PeerRing) -> None:
    with suppress(EngineError):  # what ends rank 0's engine ends this one, too
        follow(engine, ring)


class Team:
    """A leader and followers in threads, which start when told."""

    def __init__(
        self,
        ranks: int,
        ring_bytes: int = 1 << 16,
        *,
        patience_s: float = PATIENCE_S,
        **sizes: int,
    ) -> None:
        self.engines = [Noting(**sizes) for _ in range(ranks)]
        self.rings = [PeerRing.heap(ring_bytes) for _ in range(ranks - 1)]
        self.leader = LeaderEngine(self.engines[0], self.rings, patience_s)
        self.threads = [
            threading.Thread(target=follow_until_error, args=pair)
            for pair in zip(self.engines[1:], self.rings, strict=True)
        ]

    def finish(self) -> None:
        self.leader.close()
        for thread in self.threads:
            thread.join(20)
            assert not thread.is_alive()


tokens = st.lists(st.integers(0, 255), min_size=1, max_size=5)
script = st.lists(
    st.one_of(
        st.tuples(st.just("start"), tokens, st.integers(0, 2**64 - 1)),
        st.tuples(st.just("append"), st.integers(0, 9), tokens),
        st.tuples(st.just("truncate"), st.integers(0, 9), st.integers(0, 9)),
        st.tuples(st.just("release"), st.integers(0, 9)),
        st.tuples(st.just("step"), st.sets(st.integers(0, 9), max_size=3)),
    ),
    max_size=30,
)


@pytest.mark.parametrize("ranks", [2, 3])
@given(script=script)
def test_any_calls_leave_equal_state(ranks: int, script: list[tuple[Any, ...]]) -> None:
    """Also those that rank 0's engine refuses, which the others never hear of."""
    team = Team(ranks)
    leader, live = team.leader, list[int]()
    for name, *arguments in script:
        try:
            match name:
                case "start":
                    live.append(leader.start(arguments[0], SamplingParams(seed=arguments[1])))
                case "step":
                    leader.step([seq for seq in live if seq in arguments[0]] or live[:1])
                case _ if live:
                    seq = live[arguments[0] % len(live)]
                    getattr(leader, name)(seq, *arguments[1:])
                    if name == "release":
                        live.remove(seq)
        except (EngineError, IndexError):
            break  # the subserver would die of it
    for thread in team.threads:
        thread.start()
    team.finish()
    first, *others = team.engines
    *_, last = first.calls or [("nothing",)]
    for other in others:
        assert other.calls == first.calls, last
        assert other.capacity() == first.capacity()
        assert other.closed


def test_calls_travel_with_the_step_and_before_it() -> None:
    """One record a step; the others have it before rank 0 steps itself."""
    team = Team(2)
    seen: list[int] = []
    plain_step = team.engines[0].step

    def step(seqs: Sequence[int]) -> StepResult:
        seen.append(len(team.rings[0].drain()))
        return plain_step(seqs)

    team.engines[0].step = step  # type: ignore[method-assign]
    for _ in range(3):
        seq = team.leader.start([1, 2], SamplingParams())
        team.leader.append(seq, [3])
        assert team.rings[0].drain() == []
        team.leader.step([seq])
        team.leader.release(seq)
    assert seen == [1, 1, 1]


def test_long_prompts_go_out_at_once() -> None:
    """However many there are before a step, they fit into the ring."""
    team = Team(2, 1 << 16, sequences=8, context=10_000)
    for thread in team.threads:
        thread.start()
    prompts = [[250] * 9_000 for _ in range(8)]
    seqs = [team.leader.start(prompt, SamplingParams()) for prompt in prompts]
    team.leader.step(seqs)
    team.finish()
    assert team.engines[1].calls == team.engines[0].calls


def test_ranks_that_differ_are_an_error() -> None:
    team = Team(2)
    team.engines[1].start([1], SamplingParams())
    team.leader.start([1], SamplingParams())
    team.leader.close()
    with pytest.raises(EngineError, match="ranks differ: sequence 1 here is 0 at rank 0"):
        follow(team.engines[1], team.rings[0])
    assert team.engines[1].closed


def test_a_follower_that_takes_nothing_is_an_error() -> None:
    team = Team(2, 1 << 10, patience_s=0.01)
    seq = team.leader.start([1], SamplingParams())

    def step_for_ever() -> None:
        while True:
            team.leader.step([seq])
            team.leader.append(seq, [1])

    with pytest.raises(EngineError, match="rank 1: its ring is full"):
        step_for_ever()
