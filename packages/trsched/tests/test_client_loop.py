"""What the client loop makes of reports, turn by turn and without its thread."""

from __future__ import annotations

from itertools import count
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from packages.trsched.tests.groups import request
from trcore import PeerRing
from trrouters import BaseRouter, RouterContext
from trsched.active_count import ActiveCount
from trsched.client_loop import ClientLoop
from trsched.codec import GROUP, HandOff, decode_inbound, encode_report
from trsched.messages import (
    Admit,
    Command,
    Degraded,
    Died,
    Failed,
    PeerDown,
    Release,
    Report,
    RouterFailed,
    StepEvents,
)
from trsched.request import Event, FinalEvent, TokenEvent, TokenLogprobs
from trsched.stream import Stream

PROMPT = list(b"hello")


class Desk:
    """A client loop whose subservers are played by the test."""

    def __init__(
        self,
        *,
        models: int = 2,
        slots: int = 4,
        router: BaseRouter | None = None,
        degrade: bool = True,
    ) -> None:
        self.reports = PeerRing.heap(1 << 16)
        self.rings = [PeerRing.heap(1 << 16) for _ in range(models)]
        self.delivered: dict[Stream, list[Event]] = {}
        self.deaths: list[tuple[int, str]] = []
        self.router_errors: list[tuple[int, str]] = []
        self.active = ActiveCount()
        self.loop = ClientLoop(
            self.reports,
            self.rings,
            router or BaseRouter(RouterContext(0, models, 257)),
            slots=slots,
            active=self.active,
            deliver=self._deliver,
            degrade=degrade,
            on_death=lambda index, error: self.deaths.append((index, error)),
            on_router_error=lambda index, error: self.router_errors.append((index, error)),
        )

    def _deliver(self, batch: list[tuple[Stream, list[Event]]]) -> None:
        for stream, events in batch:
            assert events
            self.delivered.setdefault(stream, []).extend(events)

    def admit(self, **fields: Any) -> tuple[Stream, int]:
        """A request that has been admitted, and its handle."""
        stream = Stream(request(**fields))
        assert self.loop.submit(stream, limit=1)
        self.loop.turn()
        admit, *others = [self.inbox(index)[-1] for index in range(len(self.rings))]
        assert isinstance(admit, Admit)
        assert all(message == admit for message in others)
        return stream, admit.handle

    def report(self, *reports: Report) -> None:
        """Reports that all come in before the next turn."""
        for report in reports:
            assert self.reports.push(encode_report(report))
        self.loop.turn()

    def inbox(self, index: int) -> list[HandOff | Command]:
        """What a subserver has been sent since."""
        return [decode_inbound(record) for record in self.rings[index].drain()]


@pytest.fixture
def desk() -> Desk:
    return Desk()


def step(
    handle: int,
    position: int,
    *,
    model: int = 0,
    owner: int | None = None,
    finish: int = 0,
    logprobs: TokenLogprobs | None = None,
) -> StepEvents:
    """One row: `model` committed the token at `position` (-1: none), `owner` has it now."""
    return StepEvents(
        model,
        [handle],
        [position],
        [100 + position],
        [model if owner is None else owner],
        [finish],
        [],
        {} if logprobs is None else {0: logprobs},
    )


def token(position: int, model: int = 0) -> TokenEvent:
    return TokenEvent(position, 100 + position, model)


# --- order


@given(st.permutations(range(7)), st.data())
def test_tokens_are_delivered_in_order_of_position(order: list[int], data: st.DataObject) -> None:
    """Whatever the order and however many a turn: in order, the final event after the last."""
    desk = Desk()
    stream, handle = desk.admit(max_tokens=7)
    last = len(order) - 1
    arrived: set[int] = set()
    for position in order:
        desk.reports.push(
            encode_report(step(handle, position, model=position % 2, finish=2 * (position == last)))
        )
        arrived.add(position)
        if data.draw(st.booleans()):
            desk.loop.turn()
            ready = next(p for p in count() if p not in arrived)
            events = desk.delivered.get(stream, [])
            assert events[:ready] == [token(p, p % 2) for p in range(ready)]
            assert len(events) == ready + (ready == len(order))
    desk.loop.turn()
    *tokens, final = desk.delivered[stream]
    assert tokens == [token(p, p % 2) for p in range(len(order))]
    assert isinstance(final, FinalEvent)
    assert (final.reason, final.error, final.degraded) == ("length", None, False)


def test_the_final_event_waits_for_tokens_on_their_way(desk: Desk) -> None:
    stream, handle = desk.admit()
    desk.report(step(handle, 0, owner=1), step(handle, 2, model=1, finish=1))
    assert desk.delivered[stream] == [token(0)]
    assert desk.inbox(0) == desk.inbox(1) == []
    assert desk.loop.active == 1
    desk.report(step(handle, 1, model=1))
    assert desk.delivered[stream] == [token(0), token(1, 1), token(2, 1), FinalEvent("stop", 1)]
    assert desk.inbox(0) == desk.inbox(1) == [Release(handle)]
    assert desk.loop.active == desk.active.value == 0


def test_a_turn_delivers_once_for_all_streams(desk: Desk) -> None:
    (first, a), (second, b) = desk.admit(), desk.admit()
    desk.report(step(a, 0), step(b, 0), step(a, 1, finish=2), step(b, 1))
    assert desk.delivered[first] == [token(0), token(1), FinalEvent("length")]
    assert desk.delivered[second] == [token(0), token(1)]


def test_dropped_tokens_count_as_hand_offs_but_are_not_delivered(desk: Desk) -> None:
    stream, handle = desk.admit()
    desk.report(step(handle, -1, owner=1), step(handle, 0, model=1, owner=0))
    desk.report(step(handle, 1, finish=1))
    assert desk.delivered[stream] == [token(0, 1), token(1), FinalEvent("stop", 2)]


def test_logprobs_come_with_their_token(desk: Desk) -> None:
    stream, handle = desk.admit()
    logprobs = TokenLogprobs(-0.5, [(100, -0.5), (7, -1.0)])
    desk.report(step(handle, 0, logprobs=logprobs))
    assert desk.delivered[stream] == [TokenEvent(0, 100, 0, logprobs)]


# --- ends


def test_reports_of_what_has_ended_are_ignored(desk: Desk) -> None:
    stream, handle = desk.admit()
    desk.loop.abort(stream, "abort")
    desk.report(step(handle, 0))
    assert desk.delivered[stream] == [token(0), FinalEvent("abort")]
    desk.report(step(handle, 1, finish=1), Failed(handle, "late"))
    assert desk.delivered[stream] == [token(0), FinalEvent("abort")]
    assert all(desk.admit()[1] != handle for _ in range(3)), "slots come back, handles don't"


def test_failure_of_a_request(desk: Desk) -> None:
    stream, handle = desk.admit()
    desk.report(Failed(handle, "router failed: x"))
    assert desk.delivered[stream] == [FinalEvent("error", error="router failed: x")]
    assert desk.inbox(0) == desk.inbox(1) == [Release(handle)]


def test_a_response_that_goes_on_without_its_router_is_marked(desk: Desk) -> None:
    stream, handle = desk.admit()
    desk.report(RouterFailed(1, "oops"), Degraded(handle), step(handle, 0, finish=1))
    assert desk.delivered[stream] == [token(0), FinalEvent("stop", degraded=True)]
    assert desk.router_errors == [(1, "oops")]
    desk.report(Degraded(handle))  # it has ended: nobody's


def test_admission_waits_for_a_slot() -> None:
    desk = Desk(slots=1)
    _, handle = desk.admit()
    waiting = Stream(request())
    assert desk.loop.submit(waiting, limit=1)
    assert not desk.loop.submit(Stream(request()), limit=1)
    desk.loop.turn()
    assert (desk.loop.active, desk.loop.queued) == (1, 1)
    desk.report(step(handle, 0, finish=1))
    assert (desk.loop.active, desk.loop.queued) == (1, 0)
    released, admitted = desk.inbox(0)
    assert released == Release(handle)
    assert isinstance(admitted, Admit)


def test_abort_while_waiting() -> None:
    desk = Desk(slots=1)
    desk.admit()
    waiting = Stream(request())
    desk.loop.submit(waiting, limit=1)
    desk.loop.turn()
    desk.loop.abort(waiting, "stop")
    desk.loop.turn()
    assert desk.delivered[waiting] == [FinalEvent("stop")]
    assert desk.loop.queued == 0


@pytest.mark.parametrize("entry", [5, -1, 0.5, None, "error"])
def test_an_entry_that_cannot_be_ends_the_request_alone(entry: Any) -> None:
    class Broken(BaseRouter):
        def entry(self, seed: int) -> int:
            if seed:
                return 0
            if isinstance(entry, str):
                raise ZeroDivisionError(entry)
            return entry  # type: ignore[no-any-return]

    desk = Desk(router=Broken(RouterContext(0, 2, 257)))
    stream = Stream(request(seed=0))
    desk.loop.submit(stream, limit=1)
    desk.loop.turn()
    (final,) = desk.delivered[stream]
    assert isinstance(final, FinalEvent)
    assert final.reason == "error"
    assert "router failed" in str(final.error)
    assert desk.inbox(0) == desk.inbox(1)
    desk.admit(seed=1)


def test_a_request_too_large_for_a_ring_ends_alone(desk: Desk) -> None:
    stream = Stream(msgspec.structs.replace(request(), stop_token_ids=frozenset(range(40_000))))
    assert desk.loop.submit(stream, limit=1)
    desk.loop.turn()
    (final,) = desk.delivered[stream]
    assert isinstance(final, FinalEvent)
    assert final.reason == "error"
    assert "too many for a ring" in str(final.error)
    desk.admit()


# --- death of a model


def token_ids(events: list[Event]) -> list[int]:
    return [event.token_id for event in events if isinstance(event, TokenEvent)]


def taken_over(messages: list[HandOff | Command]) -> list[list[int]]:
    """The tokens of the group's own hand-offs, after the prompt."""
    found = []
    for message in messages:
        if isinstance(message, HandOff):
            assert message.sender == GROUP
            tokens = list(message.peer_req.token_ids)
            assert message.peer_req.loc == len(tokens)
            assert tokens[: len(PROMPT)] == PROMPT
            found.append(tokens[len(PROMPT) :])
    return found


@given(st.lists(st.booleans(), max_size=6), st.data())
def test_a_dead_models_requests_go_to_the_one_left(hops: list[bool], data: st.DataObject) -> None:
    """A path of steps (kept and handed over, or not), its reports in any order that two senders
    make possible, then the death of either model: taken over if and only if the dead one had it."""
    desk = Desk()
    stream, handle = desk.admit(max_tokens=99)
    reports: list[list[Report]] = [[], []]
    owner = 0
    for position, hands_over in enumerate(hops):
        to = 1 - owner if hands_over else owner
        reports[owner].append(step(handle, position, model=owner, owner=to))
        owner = to
    dead = data.draw(st.sampled_from([0, 1]))
    reports[dead].append(Died(dead, "gone"))
    while any(reports):
        sender = data.draw(st.sampled_from([i for i in (0, 1) if reports[i]]))
        assert desk.reports.push(encode_report(reports[sender].pop(0)))
        if data.draw(st.booleans()):
            desk.loop.turn()
    desk.loop.turn()
    messages = desk.inbox(1 - dead)
    tokens = [100 + position for position in range(len(hops))]
    assert taken_over(messages) == ([tokens] if owner == dead else [])
    assert PeerDown(dead) in messages
    assert token_ids(desk.delivered.get(stream, [])) == tokens
    desk.loop.abort(stream, "abort")
    desk.loop.turn()
    final = desk.delivered[stream][-1]
    assert isinstance(final, FinalEvent)
    assert final.degraded == (owner == dead)
    assert desk.deaths == [(dead, "gone")]


def test_where_nobody_may_take_over_the_request_ends() -> None:
    desk = Desk(degrade=False)
    stream, handle = desk.admit()
    desk.report(step(handle, 0, owner=1), Died(1, "gone"))
    assert desk.delivered[stream] == [token(0), FinalEvent("error", 1, error="model 1 died")]
    assert taken_over(desk.inbox(0)) == []


def test_without_a_model_left_requests_end(desk: Desk) -> None:
    stream, _ = desk.admit()
    desk.report(Died(1, "gone"), Died(0, "gone, too"))
    assert desk.delivered[stream] == [FinalEvent("error", error="model 0 died")]


def test_new_requests_start_at_a_living_model(desk: Desk) -> None:
    desk.report(Died(0, "gone"))
    desk.inbox(1)
    stream = Stream(request())
    desk.loop.submit(stream, limit=1)
    desk.loop.turn()
    (admit,) = desk.inbox(1)
    assert isinstance(admit, Admit)
    assert admit.entry == 1
    desk.report(step(admit.handle, 0, model=1, finish=1))
    assert desk.delivered[stream] == [token(0, 1), FinalEvent("stop", degraded=True)]
