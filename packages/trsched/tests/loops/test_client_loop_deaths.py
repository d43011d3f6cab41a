"""What the client loop makes of the death of a model, reported in any order, or not reported."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.trsched.client_desk import PROMPT, Desk, step, token
from tests.support.trsched.groups import request
from trsched.loops.stream import Stream
from trsched.request import Event, FinalEvent, TokenEvent
from trsched.wire.codec import GROUP, HandOff, encode_report
from trsched.wire.messages import Admit, Command, Died, PeerDown, Report


@pytest.fixture
def desk() -> Desk:
    return Desk()


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


@pytest.mark.parametrize("dead", [0, 1])
def test_a_hand_off_that_a_killed_model_did_not_live_to_report(dead: int, desk: Desk) -> None:
    """The other model has the request already, and ignores that it is given it once more."""
    stream, handle = desk.admit()
    back = 1 - dead
    if dead:
        desk.report(step(handle, 0, owner=1))
    desk.report(Died(dead, "killed", abrupt=True))
    assert len(taken_over(desk.inbox(back))) == 1
    for position in (1, 2):
        desk.report(step(handle, position, model=back))
    desk.report(step(handle, 3, model=back, finish=2))
    if dead:
        assert token_ids(desk.delivered[stream]) == [100, 101, 102, 103]
    else:  # the token at 0 went with its model
        assert desk.delivered[stream][-1] == FinalEvent(
            "error", 0, degraded=True, error="a token was lost with the model that made it"
        )


@pytest.mark.parametrize("dead", [0, 1])
def test_a_request_that_comes_back_to_a_killed_model(dead: int, desk: Desk) -> None:
    """That model's own hand-off went unreported: by the count nobody has the request now."""
    stream, handle = desk.admit()
    if dead:
        desk.report(step(handle, 0, owner=1))
    desk.report(step(handle, dead, model=1 - dead, owner=dead))
    desk.inbox(1 - dead)
    desk.report(Died(dead, "killed", abrupt=True))
    assert len(taken_over(desk.inbox(1 - dead))) == 1
    desk.report(step(handle, dead + 1, model=1 - dead, finish=2))
    assert isinstance(desk.delivered[stream][-1], FinalEvent)
    assert desk.loop.active == 0


def test_a_death_told_twice_is_one(desk: Desk) -> None:
    desk.admit()
    desk.report(Died(0, "by itself"), Died(0, "by its process", abrupt=True))
    assert desk.deaths == [(0, "by itself")]
    assert len(taken_over(desk.inbox(1))) == 1


@pytest.mark.parametrize(("abrupt", "ended"), [(True, 2), (False, 1)])
def test_more_models_than_two(abrupt: bool, ended: int) -> None:
    """Killed, it may have handed any request over without a word: all end."""
    desk = Desk(models=3, degrade=False)
    streams = [desk.admit(seed=seed) for seed in range(2)]
    desk.report(step(streams[0][1], 0, owner=1), Died(1, "gone", abrupt))
    finals = [desk.delivered.get(stream, [None])[-1] for stream, _ in streams]
    assert sum(isinstance(final, FinalEvent) for final in finals) == ended


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
