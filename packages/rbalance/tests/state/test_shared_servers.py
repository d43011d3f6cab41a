"""Instances that share a server: each looks as one would that had received all their requests."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from rbalance.cluster import Cluster, Tier
from rbalance.errors import ConfigError
from rbalance.state.instance_state import InstanceState
from rbalance.state.telemetry import Telemetry

TIER = Tier(
    name="pair", model="pair", instances=1, price_in=1, price_out=2, tpot_s=0.01, prefill_rate=1000
)
OTHER = 0
"""The cluster's own instance, which shares with nobody."""
LOADS = ("running", "waiting", "pending_decode", "pending_prefill")


def load(state: InstanceState, instance: int) -> list[float]:
    return [float(getattr(state.view, name)[instance]) for name in LOADS]


def shared(members: int, capacity: int = 8) -> InstanceState:
    """The other is instance 0, the members are 1, 2 and so on."""
    state = InstanceState(Cluster((TIER,)), capacity=capacity)
    first = state.add(TIER)
    for _ in range(members - 1):
        state.add(TIER, shared_with=first)
    return state


class Together(RuleBasedStateMachine):
    """The same calls for the members of a group and for one instance that stands for them all."""

    def __init__(self) -> None:
        super().__init__()
        self.state, self.one = shared(3), shared(1)
        self.members, self.now = [1, 2, 3], 0.0
        self.live: dict[int, int] = {}
        self.sent = 0

    def as_one(self, at: int) -> int:
        return at if at == OTHER else 1

    @rule(data=st.data(), prompt=st.integers(0, 5000), predicted=st.floats(0, 900))
    def dispatch(self, data: st.DataObject, prompt: int, predicted: float) -> None:
        at = data.draw(st.sampled_from([OTHER, *self.members]))
        self.state.dispatch(self.sent, at, prompt, predicted, self.now)
        self.one.dispatch(self.sent, self.as_one(at), prompt, predicted, self.now)
        self.live[self.sent] = at
        self.sent += 1

    @precondition(lambda self: self.live)
    @rule(data=st.data(), written=st.integers(0, 1000), gap=st.floats(0, 3))
    def progress(self, data: st.DataObject, written: int, gap: float) -> None:
        self.now += gap
        key = data.draw(st.sampled_from(sorted(self.live)))
        for state in (self.state, self.one):
            state.progress(key, written, self.now)

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.live)))
        del self.live[key]
        for state in (self.state, self.one):
            state.release(key, self.now)

    @rule(data=st.data(), running=st.integers(0, 9), waiting=st.integers(0, 9))
    def report(self, data: st.DataObject, running: int, waiting: int) -> None:
        at = data.draw(st.sampled_from([OTHER, *self.members]))
        told = Telemetry(running, waiting, 0.5)
        self.state.report(at, told, self.now)
        self.one.report(self.as_one(at), told, self.now)

    @rule(data=st.data())
    def report_failed(self, data: st.DataObject) -> None:
        at = data.draw(st.sampled_from([OTHER, *self.members]))
        self.state.report_failed(at)
        self.one.report_failed(self.as_one(at))

    @rule(gap=st.floats(0, 6))
    def refresh(self, gap: float) -> None:
        self.now += gap
        for state in (self.state, self.one):
            state.refresh(self.now)

    @precondition(lambda self: None in self.state.tier)
    @rule(data=st.data())
    def join(self, data: st.DataObject) -> None:
        self.members.append(self.state.add(TIER, data.draw(st.sampled_from(self.members))))

    @precondition(lambda self: len(self.members) > 1)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        at = data.draw(st.sampled_from(self.members))
        self.members.remove(at)
        orphans = [key for key, where in self.live.items() if where == at]
        assert sorted(self.state.remove(at)) == orphans  # type: ignore[type-var]
        for key in orphans:
            del self.live[key]
            self.one.in_flight.release(key)
        left = self.state.in_flight.pending_prefill[self.members].sum()
        assert (self.state.view.pending_prefill[self.members] == left).all()
        self.one.refresh(self.now)
        self.state.refresh(self.now)
        assert load(self.state, at) == [0, 0, 0, 0]

    @invariant()
    def each_member_looks_like_the_one(self) -> None:
        assert load(self.state, OTHER) == load(self.one, OTHER)
        features, of_one = self.state.features(self.now), self.one.features(self.now)
        stale, one_stale = (state.telemetry.stale(self.now) for state in (self.state, self.one))
        for at in self.members:
            assert load(self.state, at) == load(self.one, 1)
            np.testing.assert_allclose(features[at], of_one[1], rtol=1e-5)
            assert stale[at] == one_stale[1]
        counts = np.bincount(list(self.live.values()), minlength=8)
        own = self.state.in_flight
        np.testing.assert_array_equal(own.running + own.waiting, counts)


TestTogether = Together.TestCase
TestTogether.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_a_server_s_reading_is_compared_with_all_that_its_members_have_in_flight() -> None:
    state = shared(2)
    state.dispatch("a", 1, prompt=10, predicted=50, now=0.0)
    state.dispatch("b", 2, prompt=20, predicted=30, now=0.0)
    state.report(2, Telemetry(running=0, waiting=3), now=0.1)
    state.refresh(0.1)
    for at in (1, 2):
        assert load(state, at) == [0, 3, 80 + 256, 30], "two of ours and one of another gateway's"


def test_a_number_taken_again_shares_nothing_it_was_not_asked_to() -> None:
    state = shared(3)
    state.dispatch("r", 2, prompt=10, predicted=50, now=0.0)
    assert state.remove(1) == ()
    assert load(state, 2) == load(state, 3) == [0, 1, 50, 10]
    assert state.add(TIER) == 1
    assert load(state, 1) == [0, 0, 0, 0]


@pytest.mark.parametrize("wrong", [-1, 3, 99])
def test_there_must_be_something_to_share_with(wrong: int) -> None:
    with pytest.raises(ConfigError, match=f"shared_with: there is no instance {wrong}"):
        shared(2).add(TIER, shared_with=wrong)
