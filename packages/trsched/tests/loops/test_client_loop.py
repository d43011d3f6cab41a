"""What the client loop makes of reports, turn by turn and without its thread."""

from __future__ import annotations

from itertools import count
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.trsched.client_desk import Desk, step, token
from tests.support.trsched.groups import request
from trrouters import BaseRouter, RouterContext
from trsched.loops.stream import Stream
from trsched.request import FinalEvent, TokenEvent, TokenLogprobs
from trsched.wire.codec import encode_report
from trsched.wire.messages import (
    Admit,
    Degraded,
    Release,
    RequestFailed,
    RouterFailed,
)


@pytest.fixture
def desk() -> Desk:
    return Desk()


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
    desk.report(step(handle, 1, finish=1), RequestFailed(handle, "late"))
    assert desk.delivered[stream] == [token(0), FinalEvent("abort")]
    assert all(desk.admit()[1] != handle for _ in range(3)), "slots come back, handles don't"


def test_failure_of_a_request(desk: Desk) -> None:
    stream, handle = desk.admit()
    desk.report(RequestFailed(handle, "router failed: x"))
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
