"""instance_state: whatever happens in whatever order, accounts add up and end at zero."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from rbalance.cluster import Cluster, Tier
from rbalance.errors import ConfigError
from rbalance.state.in_flight import InFlight
from rbalance.state.instance_state import InstanceState
from rbalance.state.telemetry import Telemetry
from rbalance.tpot.features import STATE_COLUMN


def tier(name: str, instances: int = 1, **changes: float) -> Tier:
    given: dict[str, float] = {
        "price_in": 1.0,
        "price_out": 2.0,
        "tpot_s": 0.01,
        "prefill_rate": 1000,
    }
    return Tier(name=name, model=name, instances=instances, **{**given, **changes})  # type: ignore[arg-type]


PAIR = Cluster((tier("small", 2), tier("large")))


def test_a_request_is_counted_where_it_is_and_released_to_the_last_token() -> None:
    state = InstanceState(PAIR)
    view = state.view
    state.dispatch("r", 1, prompt=100, predicted=19.2, now=1.0)
    assert (view.waiting[1], view.running[1]) == (1, 0)
    assert (view.pending_prefill[1], view.pending_decode[1]) == (100, 20)
    state.progress("r", 5, now=1.5)
    assert (view.waiting[1], view.running[1]) == (0, 1)
    assert (view.pending_prefill[1], view.pending_decode[1]) == (0, 15)
    state.progress("r", 400, now=2.0)
    assert view.pending_decode[1] == 1, "longer than predicted, and at least one token to go"
    state.release("r", now=2.0)
    state.release("r", now=2.0)
    for column in (view.waiting, view.running, view.pending_prefill, view.pending_decode):
        assert not column.any()


def test_a_key_in_flight_is_not_dispatched_a_second_time() -> None:
    state = InstanceState(PAIR)
    state.dispatch("r", 0, 1, 1, now=0)
    with pytest.raises(ValueError, match="'r' is in flight already"):
        state.dispatch("r", 1, 1, 1, now=0)


def test_telemetry_adds_what_others_sent_and_not_ours_a_second_time() -> None:
    state = InstanceState(PAIR, typical_tokens=[100, 300])
    for key in range(3):
        state.dispatch(key, 2, prompt=10, predicted=50, now=0.0)
    state.progress(0, 1, now=0.1)
    state.report(2, Telemetry(running=3, waiting=2), now=0.1)  # 5 in all, 3 of them ours
    state.refresh(0.1)
    view = state.view
    assert (view.running[2], view.waiting[2]) == (3, 2)
    assert view.pending_decode[2] == 49 + 50 + 50 + 2 * 300 / 2
    state.release(1, now=0.2)
    assert (view.running[2], view.waiting[2]) == (3, 1), "between readings our account goes on"
    state.report(2, Telemetry(running=0, waiting=0), now=0.3)
    state.refresh(0.3)
    assert (view.running[2], view.waiting[2]) == (1, 1), "ours are not on their way back yet"


def test_a_silent_instance_is_stale_but_does_not_look_idle_until_it_is_forgotten() -> None:
    state = InstanceState(PAIR, stale_s=1.0, forget_s=10.0)
    state.report(0, Telemetry(running=7, waiting=1, kv_usage=0.5), now=0.0)
    assert not state.telemetry.stale(0.5)[0]
    assert state.telemetry.stale(0.5)[1], "never heard of"
    state.telemetry.failed(0)
    assert state.telemetry.stale(0.5)[0]
    state.refresh(9.0)
    assert (state.view.running[0], state.view.waiting[0]) == (7, 1)
    assert state.telemetry.kv_usage(9.0)[0] == 0.5
    state.refresh(10.5)
    assert (state.view.running[0], state.view.waiting[0]) == (0, 0)
    assert np.isnan(state.telemetry.kv_usage(10.5)[0])
    state.report(0, Telemetry(running=1, waiting=0), now=11.0)
    assert not state.telemetry.stale(11.0)[0]


def test_instances_come_and_go_while_requests_are_in_flight() -> None:
    state = InstanceState(PAIR, capacity=4)
    new = state.add(tier("small"))
    assert (new, state.view.healthy[new], state.view.model[new]) == (3, True, 0)
    with pytest.raises(ConfigError, match="all 4 instances are taken"):
        state.add(tier("small"))
    state.dispatch("r", 0, 10, 10, now=0)
    state.report(0, Telemetry(running=9, waiting=0), now=0)
    state.drain(0)
    assert state.view.draining[0]
    assert state.view.waiting[0] == 1
    assert state.remove(0) == ("r",)
    state.refresh(0.1)
    assert not state.view.healthy[0]
    assert (state.view.running[0], state.view.waiting[0], len(state.in_flight)) == (0, 0, 0)
    state.set_healthy(0, True)
    assert not state.view.healthy[0], "an instance that is not there is not healthy"
    state.release("r", now=1)
    assert state.add(tier("large")) == 0
    assert state.view.healthy[0]
    assert not state.view.draining[0]
    with pytest.raises(ConfigError, match="'huge' is none of small, large"):
        InstanceState(PAIR, capacity=4).add(tier("huge"))


def test_a_cluster_may_begin_empty() -> None:
    empty = Cluster((tier("small", 0), tier("large", 0)))
    with pytest.raises(ConfigError, match="capacity: there must be room for an instance"):
        InstanceState(empty)
    state = InstanceState(empty, capacity=2)
    assert not state.view.healthy.any()
    assert (state.congested(), state.stale(0.0)) == (0, 0)
    assert state.add(tier("large")) == 0
    assert state.view.model[0] == 1


def test_congestion_is_the_share_of_open_instances_with_waiting_requests() -> None:
    state = InstanceState(PAIR)
    assert state.congested() == 0
    state.dispatch("r", 0, 10, 10, now=0)
    assert state.congested() == pytest.approx(1 / 3)
    state.set_healthy(1, False)
    assert state.congested() == pytest.approx(1 / 2)
    state.drain(0)
    state.drain(2)
    assert state.congested() == 0


def test_features_are_what_their_table_says() -> None:
    state = InstanceState(PAIR)
    state.dispatch("old", 0, prompt=100, predicted=50, now=1.0)
    state.dispatch("new", 0, prompt=40, predicted=20, now=2.0)
    state.progress("old", 1, now=2.0)
    state.progress("old", 11, now=3.0)
    state.report(0, Telemetry(1, 1, kv_usage=0.25), now=3.0)
    found = {name: state.features(3.5)[0, at] for name, at in STATE_COLUMN.items()}
    assert found["running"] == 1
    assert found["waiting"] == 1
    assert found["slots"] == 64
    assert (found["pending_prefill"], found["pending_decode"]) == (40, 39 + 20)
    assert (found["context"], found["written"]) == (111, 11)
    assert (found["oldest_running"], found["oldest_waiting"]) == (2.5, 1.5)
    assert (found["kv_usage"], found["telemetry_age"]) == (0.25, 0.5)
    assert found["recent_ttft"] == 1.0
    assert np.isnan(found["recent_tpot"])
    state.release("old", now=3.5)
    assert state.features(3.5)[0, STATE_COLUMN["recent_tpot"]] == pytest.approx(1.5 / 10)
    later, much_later = (state.features(t)[0, STATE_COLUMN["decode_rate"]] for t in (4.0, 60.0))
    assert later > much_later
    assert much_later == pytest.approx(0, abs=1e-9)
    assert np.isnan(state.features(3.5)[1, STATE_COLUMN["telemetry_age"]])


class Accounts(RuleBasedStateMachine):
    """Dispatch, progress, end, telemetry, drain, removal and return in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.state = InstanceState(PAIR, capacity=4)
        self.now = 0.0
        self.dispatched = 0
        self.live: dict[int, int] = {}

    @initialize(gap=st.floats(0, 1))
    def begin(self, gap: float) -> None:
        self.now += gap

    @rule(at=st.integers(0, 3), prompt=st.integers(0, 5000), predicted=st.floats(0, 900))
    def dispatch(self, at: int, prompt: int, predicted: float) -> None:
        if not self.state.view.healthy[at]:
            return
        self.state.dispatch(self.dispatched, at, prompt, predicted, self.now)
        self.live[self.dispatched] = at
        self.dispatched += 1

    @rule(data=st.data(), written=st.integers(0, 2000), gap=st.floats(0, 3))
    def progress(self, data: st.DataObject, written: int, gap: float) -> None:
        self.now += gap
        key = data.draw(st.integers(0, max(0, self.dispatched)))
        self.state.progress(key, written, self.now)

    @precondition(lambda self: self.live)
    @rule(data=st.data(), times=st.integers(1, 2))
    def end(self, data: st.DataObject, times: int) -> None:
        key = data.draw(st.sampled_from(sorted(self.live)))
        del self.live[key]
        for _ in range(times):
            self.state.release(key, self.now)

    @rule(at=st.integers(0, 3), running=st.integers(0, 9), waiting=st.integers(0, 9))
    def telemetry(self, at: int, running: int, waiting: int) -> None:
        self.state.report(at, Telemetry(running, waiting), self.now)
        self.state.refresh(self.now)

    @rule(at=st.integers(0, 3))
    def telemetry_fails(self, at: int) -> None:
        self.state.telemetry.failed(at)

    @rule(at=st.integers(0, 3))
    def drain(self, at: int) -> None:
        self.state.drain(at)

    @rule(at=st.integers(0, 3))
    def remove(self, at: int) -> None:
        orphans = self.state.remove(at)
        assert sorted(orphans) == sorted(key for key, where in self.live.items() if where == at)  # type: ignore[type-var]
        self.live = {key: where for key, where in self.live.items() if where != at}

    @precondition(lambda self: None in self.state.tier)
    @rule()
    def add(self) -> None:
        self.state.add(tier("small"))

    @invariant()
    def accounts_add_up(self) -> None:
        own, view = self.state.in_flight, self.state.view
        counts = np.bincount(list(self.live.values()), minlength=4)
        np.testing.assert_array_equal(own.running + own.waiting, counts)
        amounts = (own.pending_prefill, own.pending_decode, own.context, own.written)
        for amount in amounts:
            assert (amount >= 0).all()
            assert not amount[counts == 0].any(), "nothing is left where nothing is in flight"
        assert (own.pending_decode >= counts).all()
        assert (view.running >= own.running).all()
        assert (view.waiting >= own.waiting).all()
        assert (view.pending_decode >= own.pending_decode).all()

    def teardown(self) -> None:
        for key in list(self.live):
            self.state.release(key, self.now)
        self.state.refresh(self.now + 60)
        view = self.state.view
        for column in (view.running, view.waiting, view.pending_decode, view.pending_prefill):
            assert not column.any(), "idle means zero"


TestAccounts = Accounts.TestCase
TestAccounts.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_the_oldest_running_request_need_not_have_begun_first() -> None:
    own = InFlight(1)
    for key, dispatched in (("first", 1.0), ("second", 2.0)):
        own.dispatch(key, 0, prompt=10, predicted=50, now=dispatched)
    own.progress("second", 1, now=3.0)
    assert own.oldest_running().tolist() == [2.0]
    own.progress("first", 1, now=4.0)
    assert own.oldest_running().tolist() == [1.0]
