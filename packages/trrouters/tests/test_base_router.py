"""The parts of the interface that every algorithm leans on: peers' numbers, the minimal suffix."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.trrouters.seen_request import SeenRequest, step_of
from trrouters import BaseRouter, PeerReq, RouterContext

TOKENS = st.lists(st.integers(0, 99), max_size=12)


def router(index: int = 0, n_models: int = 2) -> BaseRouter:
    return BaseRouter(RouterContext(index, n_models, vocab_size=100))


@given(st.integers(1, 9), st.data())
def test_peers_are_numbered_one_to_one(n_models: int, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, n_models - 1))
    here = router(index, n_models)
    numbers = [here.peer_of(subserver) for subserver in range(n_models)]
    assert sorted(numbers) == list(range(n_models))
    assert here.peer_of(index) == 0
    assert [(index + peer) % n_models for peer in numbers] == list(range(n_models))


@given(TOKENS.filter(bool), TOKENS.filter(bool), st.booleans(), st.booleans(), st.data())
def test_hand_off_sends_exactly_what_the_peer_lacks(
    prompt: list[int], output: list[int], keep_token: bool, ends: bool, data: st.DataObject
) -> None:
    sent = prompt + output if keep_token else prompt + output[:-1]
    known = data.draw(st.integers(0, len(sent)))
    peer = data.draw(st.integers(1, 3))
    locs = [99] * 4
    locs[peer] = known
    req = SeenRequest(prompt, output, peer_locs=locs, peer=peer, ends=ends)
    message = router(n_models=4).hand_off(req, keep_token=keep_token)
    assert message.rid == req.rid
    assert [*sent[:known], *message.token_ids] == sent
    assert message.loc == len(sent)
    assert message.finished == (ends and keep_token)


@given(TOKENS.filter(bool), TOKENS.filter(bool))
def test_a_peer_that_knows_the_dropped_token_is_sent_nothing(
    prompt: list[int], output: list[int]
) -> None:
    req = SeenRequest(prompt, output, peer_locs=(0, len(prompt) + len(output)))
    message = router().hand_off(req, keep_token=False)
    assert list(message.token_ids) == []
    assert message.loc == len(prompt) + len(output) - 1


def test_defaults() -> None:
    here = router()
    req = SeenRequest([1, 2], [3, 4], peer_locs=(0, 2), ends=True)
    assert here.entry(123) == 0
    assert here.send(req) == PeerReq(7, [3, 4], 4, finished=True)
    assert here.receive(PeerReq(7, [3, 4], 4)) == [3, 4]
    assert not here.needs
    with pytest.raises(NotImplementedError):
        here.route(step_of([req]))
