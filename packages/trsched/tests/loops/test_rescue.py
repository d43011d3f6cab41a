"""What becomes of a request when a model is dead, by who has it and what was reported of it."""

from __future__ import annotations

import pytest

from tests.support.trsched.groups import request
from trsched.loops.active_request import ActiveRequest
from trsched.loops.rescue import Fate, fate
from trsched.loops.stream import Stream

FIRST_DEAD, SECOND_DEAD, BOTH_DEAD = [False, True], [True, False], [False, False]


def active(owner: int, *, only: int | None = None) -> ActiveRequest:
    return ActiveRequest(Stream(request(only=only)), 0, owner)


@pytest.mark.parametrize(
    ("owner", "alive", "degrade", "expected"),
    [
        (0, SECOND_DEAD, True, "goes on"),
        (1, SECOND_DEAD, True, "moves"),
        (0, FIRST_DEAD, True, "moves"),
        (1, SECOND_DEAD, False, "model died"),
        (1, BOTH_DEAD, True, "model died"),
        (2, SECOND_DEAD, True, "moves"),  # model 1 was killed before it reported handing it back
        (-1, FIRST_DEAD, True, "moves"),  # the same of model 0
        (2, SECOND_DEAD, False, "goes on"),  # with no degrading, it ends elsewhere
    ],
)
def test_who_has_it(owner: int, alive: list[bool], degrade: bool, expected: Fate) -> None:
    assert fate(active(owner), alive, degrade=degrade) == expected


def test_one_that_is_bound_ends_with_its_model() -> None:
    assert fate(active(1, only=1), SECOND_DEAD, degrade=True) == "model died"
    assert fate(active(0, only=0), SECOND_DEAD, degrade=True) == "goes on"


def test_a_token_that_nobody_will_tell() -> None:
    """The model that lives has reported the end, and tokens before it are still missing."""
    ending = active(0)
    ending.end, ending.ended_by = (3, "stop"), 0
    assert fate(ending, SECOND_DEAD, degrade=True) == "token lost"
    ending.ended_by = 1
    assert fate(ending, SECOND_DEAD, degrade=True) == "goes on"
