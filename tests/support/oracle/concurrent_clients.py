"""Clients that press a group with requests at once, some of which give up on the way."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from tests.support.oracle.sequential import Answer
from trsched.group import Group
from trsched.request import FinalEvent, GenerateRequest


def answers(
    group: Group, requests: Sequence[GenerateRequest], clients: int, give_up_after: dict[int, int]
) -> list[tuple[Answer, FinalEvent]]:
    """What each request gets, `clients` of them at a time.

    give_up_after: requests (by index) that their client aborts after so many tokens.
    """

    def ask(index: int) -> tuple[Answer, FinalEvent]:
        stream = group.submit(requests[index])
        answer = Answer([], [])
        for event in stream:
            if isinstance(event, FinalEvent):
                return answer, event
            answer.tokens.append(event.token_id)
            answer.models.append(event.model)
            if len(answer.tokens) == give_up_after.get(index):
                group.abort(stream)
        raise AssertionError("no final event")

    with ThreadPoolExecutor(clients) as pool:
        return list(pool.map(ask, range(len(requests))))


def assert_equal(
    got: list[tuple[Answer, FinalEvent]], expected: list[Answer], give_up_after: dict[int, int]
) -> None:
    """Whole answers are equal; aborted ones are a beginning, not shorter than when they gave up."""
    for index, ((answer, final), whole) in enumerate(zip(got, expected, strict=True)):
        given_up = final.reason == "abort"
        assert given_up or final.reason in ("stop", "length"), final
        assert given_up <= (index in give_up_after)
        if given_up:
            assert len(answer.tokens) >= give_up_after[index]
        length = len(answer.tokens) if given_up else len(whole.tokens)
        assert answer.tokens == whole.tokens[:length], f"request {index}"
        assert answer.models == whole.models[:length], f"request {index}"


def assert_served(
    group: Group,
    requests: Sequence[GenerateRequest],
    expected: Sequence[Answer],
    clients: Sequence[int] = (1, 4, 16),
) -> None:
    """Clients, some of which give up, get what is expected; the group closes and holds no KV."""
    try:
        for count in clients:
            part = requests[: {1: 3, 4: 8, 16: 18}[count]]
            give_up_after = {i: 2 + i % 5 for i in range(len(part)) if i % 4 == 3}
            got = answers(group, part, count, give_up_after)
            assert_equal(got, list(expected[: len(part)]), give_up_after)
        assert group.drain(60)
    finally:
        group.close()
    assert not any(subserver.sequences_used for subserver in group.status().subservers)
