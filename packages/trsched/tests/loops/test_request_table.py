"""The table against a plain model of it, over every order of what can happen to requests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from tests.support.trsched.counting_engine import CountingEngine
from trcore import PendingTable, State
from trsched.loops.local_request import LocalRequest
from trsched.loops.request_table import RequestTable
from trsched.request import ModelSampling, SamplingParams
from trsched.shared.counters import SubserverStats
from trsched.shared.step_counters import StepCounters
from trsched.wire.messages import Admit

SLOTS = 5
MODELS = 2
TOKENS = st.lists(st.integers(0, 99), max_size=3)


@dataclass
class Known:
    """What the model knows of a request."""

    tokens: list[int]
    running: bool
    has_kv: bool = False
    stepped: bool = False
    age: int = 0
    stays: bool = False


Condition = Callable[[Known], bool]


def waits(known: Known) -> bool:
    return known.running and not known.stepped


def stepped(known: Known) -> bool:
    return known.stepped


def may_leave(known: Known) -> bool:
    return known.stepped and not known.stays


def pending(known: Known) -> bool:
    return not known.running


def crowd(known: Known) -> bool:
    """Ends are few, for much to happen in between."""
    return known.age > 6


def where(condition: Condition) -> Callable[[RequestTableMachine], bool]:
    return lambda machine: any(map(condition, machine.known.values()))


class RequestTableMachine(RuleBasedStateMachine):
    @initialize(sequences=st.integers(1, 3))
    def start(self, sequences: int) -> None:
        self.engine = CountingEngine(sequences)
        self.stats = SubserverStats("test", StepCounters(3, 8))
        self.table = RequestTable(SLOTS, MODELS, self.engine, self.stats, ModelSampling())
        self.group = PendingTable(SLOTS, 1)  # whoever hands out the handles
        self.known: dict[int, Known] = {}
        self.ended: list[int] = []
        self.ready: list[int] = []
        self.holders: list[int] = []  # pending with KV, longest pending first
        self.returned: list[int] = []  # back with KV, not run since
        self.reclaims = 0

    def chosen(self, data: st.DataObject, condition: Condition) -> int:
        """One of the live requests for which `condition` holds."""
        handles = [handle for handle, known in self.known.items() if condition(known)]
        return data.draw(st.sampled_from(handles))

    @precondition(lambda self: self.group.counts()[0])
    @rule(ready=st.booleans(), prompt=TOKENS.filter(bool), may_stay=st.booleans())
    def admit(self, ready: bool, prompt: list[int], may_stay: bool) -> None:
        handle = self.group.allocate()
        stays = ready and may_stay
        admit = Admit(handle, 0, prompt, SamplingParams(), 9, [], stays=stays)
        taken = self.table.admit(admit, ready=ready)
        slots = {PendingTable.slot(other) for other in self.known}
        assert taken == (PendingTable.slot(handle) not in slots)
        if not taken:
            self.group.transition(handle, State.RUNNING, State.FINISHED)
            self.group.release(handle)
            return
        self.known[handle] = Known(list(prompt), running=ready, stays=stays)
        if ready:
            self.ready.append(handle)

    @precondition(where(waits))
    @rule(data=st.data())
    def bring_kv_up(self, data: st.DataObject) -> None:
        handle = self.chosen(data, waits)
        known = self.known[handle]
        full = len(self.engine.held) == self.engine.sequences
        expected = known.has_kv or not full or bool(self.holders or self.returned)
        if handle in self.returned:
            self.returned.remove(handle)
        if full and not known.has_kv and expected:
            victim = self.holders.pop(0) if self.holders else self.returned.pop()
            self.known[victim].has_kv = False
            self.reclaims += 1
        req = self.live(handle)
        assert self.table.bring_kv_up(req) == expected
        known.has_kv = expected
        if expected:
            assert req.seq is not None
            assert self.engine.held[req.seq] == known.tokens
            self.engine.run(req.seq)
            known.stepped = True

    @precondition(where(stepped))
    @rule(data=st.data(), token=st.integers(0, 99))
    def commit(self, data: st.DataObject, token: int) -> None:
        handle = self.chosen(data, stepped)
        self.live(handle).output_ids.append(token)
        self.known[handle].tokens.append(token)
        self.known[handle].stepped = False

    @precondition(where(may_leave))
    @rule(data=st.data(), token=st.integers(0, 99), kept=st.booleans())
    def park(self, data: st.DataObject, token: int, kept: bool) -> None:
        """Hand over what a step made, with or without the token."""
        handle = self.chosen(data, may_leave)
        known, req = self.known[handle], self.live(handle)
        req.output_ids.append(token)
        self.table.park(req)
        if kept:
            known.tokens.append(token)
        else:
            req.keep(req.loc - 1)
        known.running = known.stepped = False
        self.ready.remove(handle)
        self.holders.append(handle)

    @precondition(where(pending))
    @rule(data=st.data(), tokens=TOKENS)
    def resume(self, data: st.DataObject, tokens: list[int]) -> None:
        handle = self.chosen(data, pending)
        known, req = self.known[handle], self.live(handle)
        req.output_ids.extend(tokens)
        assert self.table.resume(req)
        assert not self.table.resume(req)
        known.tokens.extend(tokens)
        known.running = True
        self.ready.append(handle)
        if known.has_kv:
            self.holders.remove(handle)
            self.returned.append(handle)

    @precondition(where(crowd))
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        handle = self.chosen(data, crowd)
        assert self.table.end(handle)
        known = self.known.pop(handle)
        if known.running:
            self.ready.remove(handle)
        elif known.has_kv:
            self.holders.remove(handle)
        if handle in self.returned:
            self.returned.remove(handle)
        self.ended.append(handle)
        self.group_forgets(handle)

    @precondition(where(crowd))
    @rule(data=st.data())
    def group_ends_first(self, data: st.DataObject) -> None:
        """The slot may be given out again before the table hears of the end."""
        self.group_forgets(self.chosen(data, crowd))

    def group_forgets(self, handle: int) -> None:
        self.group.transition(handle, State.RUNNING, State.FINISHED)
        self.group.release(handle)

    @precondition(lambda self: self.ended)
    @rule(data=st.data(), ready=st.booleans())
    def stale_handles_are_harmless(self, data: st.DataObject, ready: bool) -> None:
        handle = data.draw(st.sampled_from(self.ended))
        assert self.table.get(handle) is None
        assert not self.table.end(handle)
        assert not self.table.admit(Admit(handle, 0, [1], SamplingParams(), 9, []), ready=ready)

    @precondition(lambda self: self.known)
    @rule()
    def record_states(self) -> None:
        self.table.record_states()
        running = sum(known.running for known in self.known.values())
        assert self.stats.running == self.stats.waiting == running
        assert self.stats.pending == len(self.known) - running
        assert self.stats.sequences_used == len(self.engine.held)
        assert self.stats.kv_reclaims == self.reclaims

    @invariant()
    def table_is_what_the_model_says(self) -> None:
        assert [req.rid for req in self.table.ready] == self.ready
        for handle, known in self.known.items():
            known.age += 1
            req = self.live(handle)
            assert self.table.is_pending(req) == (not known.running)
            assert req.tokens_from(0) == known.tokens
            assert (req.seq is not None) == known.has_kv
            if req.seq is not None:
                assert self.engine.held[req.seq] == known.tokens[: req.given]
        assert self.table.staying == sum(known.stays for known in self.known.values())
        with_kv = sum(known.has_kv for known in self.known.values())
        assert with_kv == len(self.engine.held) <= self.engine.sequences

    def live(self, handle: int) -> LocalRequest:
        req = self.table.get(handle)
        assert req is not None
        return req

    def teardown(self) -> None:
        if not hasattr(self, "table"):
            return
        for handle in list(self.known):
            assert self.table.end(handle)
        assert not self.engine.held
        assert not self.table.ready
        self.table.record_states()
        assert (self.stats.running, self.stats.pending) == (0, 0)


TestRequestTable = RequestTableMachine.TestCase
TestRequestTable.settings = settings(max_examples=60, stateful_step_count=50)


REQUESTED = SamplingParams(temperature=0.5, top_p=0.6, top_k=7, seed=8, logprobs=9)


def admitted(
    engine: CountingEngine, count: int, own: ModelSampling | None = None
) -> tuple[RequestTable, list[LocalRequest]]:
    table = RequestTable(
        count, MODELS, engine, SubserverStats("test", StepCounters(3, 8)), own or ModelSampling()
    )
    group = PendingTable(count, 1)
    requests = []
    for _ in range(count):
        handle = group.allocate()
        assert table.admit(Admit(handle, 0, [1, 2], REQUESTED, 9, []), ready=True)
        req = table.get(handle)
        assert req is not None
        requests.append(req)
    return table, requests


def test_kv_pending_longest_is_reclaimed_first() -> None:
    engine = CountingEngine(2)
    table, (a, b, c, d) = admitted(engine, 4)
    assert table.bring_kv_up(a)
    assert table.bring_kv_up(b)
    assert not table.bring_kv_up(c), "running requests are never robbed"
    table.park(b)
    table.park(a)
    assert table.bring_kv_up(c)
    assert (a.seq is not None, b.seq) == (True, None)
    assert table.bring_kv_up(d)
    assert a.seq is None


def test_requests_that_come_and_go_do_not_keep_another_from_its_turn() -> None:
    """KV for two of three, and the peer returns both at once: the third has waited longer."""
    engine = CountingEngine(2)
    table, requests = admitted(engine, 3)
    turns = dict.fromkeys(requests, 0)
    for _ in range(30):
        batch = [req for req in list(table.ready) if table.bring_kv_up(req)]
        for req in batch:
            assert req.seq is not None
            engine.run(req.seq)
            turns[req] += 1
            req.output_ids.append(7)
            table.park(req)
        for req in batch:
            req.output_ids.append(8)
            assert table.resume(req)
    assert max(turns.values()) <= min(turns.values()) + 2, turns.values()


def test_a_request_that_comes_back_with_nothing_new_runs_its_last_token_again() -> None:
    engine = CountingEngine(1)
    table, (req,) = admitted(engine, 1)
    assert table.bring_kv_up(req)
    assert req.seq is not None
    engine.run(req.seq)
    table.park(req)  # what it sampled was dropped
    assert table.resume(req)
    assert table.bring_kv_up(req)
    assert engine.held[req.seq] == [1, 2]
    assert engine.ran[req.seq] == 1


def test_everyone_is_told_the_prompt() -> None:
    _, (req,) = admitted(CountingEngine(1), 1)
    assert list(req.peer_locs) == [0, 2]
    assert req.peer_locs[0:2] == [0, 2]
    assert (req.loc, req.arrived_loc, req.peer, req.seed) == (2, 2, 0, 8)


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        (ModelSampling(), REQUESTED),
        (ModelSampling(temperature=0.0), SamplingParams(0.0, 0.6, 7, 8, 9)),
        (ModelSampling(top_p=1.0, top_k=0), SamplingParams(0.5, 1.0, 0, 8, 9)),
        (ModelSampling(2.0, 0.3, 4), SamplingParams(2.0, 0.3, 4, 8, 9)),
    ],
)
def test_a_models_own_sampling_also_after_its_kv_was_reclaimed(
    own: ModelSampling, expected: SamplingParams
) -> None:
    engine = CountingEngine(1)
    table, (first, second) = admitted(engine, 2, own)
    assert table.bring_kv_up(first)
    assert list(engine.sampling.values()) == [expected]
    table.park(first)
    assert table.bring_kv_up(second)
    assert first.seq is None, "reclaimed"
    table.park(second)
    assert table.resume(first)
    assert table.bring_kv_up(first)
    assert list(engine.sampling.values()) == [expected]
    assert first.sampling == REQUESTED
