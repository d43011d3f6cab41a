"""The calls of models read from a response are those of the sequential program that made it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.systems.path import Flow, Visit, visits
from tests.support.oracle.sequential import Answer, Decide, generate, mixture, one_token_visits
from trsched.request import SamplingParams

PROMPT = [7, 8, 9]
STOP = 0

Call = tuple[int, int, bool]
"""(model, output position, whether the token stands)."""


class Hashed:
    """Its token is a function of all tokens before it; 0, the end, now and then."""

    def __init__(self, index: int) -> None:
        self._index = index

    def propose(self, tokens: Sequence[int], params: SamplingParams) -> tuple[int, None]:
        return hash((self._index, *tokens)) % 23, None


MODELS = [Hashed(0), Hashed(1), Hashed(2)]


def logged(decide: Decide, calls: list[Call]) -> Decide:
    def and_log(model, position, logits, visit):
        stands, following = decide(model, position, logits, visit)
        calls.append((model, position, stands))
        return stands, following

    return and_log


def run(first: int, decide: Decide, max_tokens: int) -> tuple[Answer, list[Call]]:
    calls: list[Call] = []
    answer = generate(
        MODELS,
        first,
        logged(decide, calls),
        PROMPT,
        SamplingParams(),
        max_tokens,
        frozenset([STOP]),
    )
    return answer, calls


def replay(path: Sequence[Visit], recorded: Answer) -> tuple[Answer, list[Call]]:
    """What the models make when they are called as the path says."""
    answer, calls = Answer([], []), []
    for visit in path:
        assert visit.position == len(answer.tokens)
        made: list[int] = []
        for _ in range(visit.count):
            calls.append((visit.model, visit.position + len(made), visit.stands))
            token, _ = MODELS[visit.model].propose(
                [*PROMPT, *answer.tokens, *made], SamplingParams()
            )
            made.append(token)
        if visit.stands:
            answer.tokens += made
            answer.models += [visit.model] * len(made)
    return answer, calls


coins = st.lists(st.booleans(), min_size=200, max_size=200)
lengths = st.integers(1, 40)


@given(coins, lengths)
def test_one_token_visits(heads: list[bool], length: int) -> None:
    tosses = iter(heads)
    recorded, calls = run(*one_token_visits(lambda: next(tosses)), length)
    path = visits(recorded.models, "one_token_visits")
    assert replay(path, recorded) == (recorded, calls)


@given(coins, lengths, st.integers(1, 5))
def test_longer_visits_are_one_call(heads: list[bool], length: int, tokens_per_visit: int) -> None:
    tosses = iter(heads)

    def decide(model, position, logits, visit):
        if model == 1:
            return True, 0 if visit == tokens_per_visit else 1
        leaves = next(tosses)
        return not leaves, int(leaves)

    recorded, calls = run(0, decide, length)
    path = visits(recorded.models, "one_token_visits", tokens_per_visit=tokens_per_visit)
    assert replay(path, recorded) == (recorded, calls)
    assert sum(not visit.stands for visit in path) == sum(visit.model for visit in path)


@given(coins, lengths)
def test_r_stitch(heads: list[bool], length: int) -> None:
    tosses = iter(heads)

    def decide(model, position, logits, visit):
        uncertain = next(tosses)
        if model == 0:
            return not uncertain, int(uncertain)
        return True, int(uncertain)

    recorded, calls = run(0, decide, length)
    replayed, fewest = replay(visits(recorded.models, "r_stitch"), recorded)
    assert replayed == recorded
    told_apart = [
        (model, position, stands)
        for model, position, stands in calls
        if stands or position == 0 or recorded.models[position - 1] == 0
    ]
    assert fewest == told_apart


@given(st.integers(0, 1000), lengths)
def test_me(seed: int, length: int) -> None:
    recorded, calls = run(*mixture([1, 2, 3], seed), length)
    path = visits(recorded.models, "me")
    assert replay(path, recorded) == (recorded, calls)
    assert all(one.model != other.model for one, other in pairwise(path))


def test_nothing_recorded_is_no_path() -> None:
    assert visits([], "me") == visits([], "r_stitch") == []


@pytest.mark.parametrize("flow", ["one_token_visits", "r_stitch", "me"])
def test_an_unknown_model_is_refused(flow: Flow) -> None:
    with pytest.raises(ValueError, match="-1"):
        visits([0, -1], flow)
