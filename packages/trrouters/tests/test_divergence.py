"""Labels of the small model's tokens against trying every position by itself."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch", reason="trrouters[torch] is not installed: no torch")

from packages.trrouters.tests.scripted_pair import (
    ScriptedEngine,
    greedy_answer,
    mostly,
    plain_labels,
    rule,
)
from trrouters.training.divergence import AnswerTrace, label_divergent
from trrouters.training.pair import PairError

STOP = frozenset({0})


def trace_of(
    engine: ScriptedEngine, prompt: list[int], answer: list[int], small: list[int]
) -> AnswerTrace:
    seq = engine.start(prompt, "greedy")
    engine.append(seq, answer[:-1])
    return AnswerTrace(seq, len(prompt), answer, small, ended=answer[-1] in STOP)


@given(
    seed=st.integers(0, 10_000),
    vocab=st.integers(2, 9),
    order=st.integers(1, 3),
    agreement=st.sampled_from([0.0, 0.5, 0.9]),
    prompts=st.lists(st.lists(st.integers(1, 8), min_size=1, max_size=9), min_size=1, max_size=4),
    longest=st.integers(1, 14),
    horizon=st.integers(1, 6),
    budget=st.integers(1, 9),
)
def test_labels_are_those_of_the_plain_definition(
    seed: int,
    vocab: int,
    order: int,
    agreement: float,
    prompts: list[list[int]],
    longest: int,
    horizon: int,
    budget: int,
) -> None:
    large = rule(seed, vocab, order)
    small = mostly(large, seed + 1, vocab, agreement)
    engine = ScriptedEngine(large, vocab, budget=budget)
    traces, expected = [], []
    for prompt in prompts:
        answer = greedy_answer(large, prompt, longest, STOP)
        others = [small([*prompt, *answer[:i]]) for i in range(len(answer))]
        traces.append(trace_of(engine, prompt, answer, others))
        expected.append(plain_labels(large, prompt, answer, others, horizon, STOP))
    assert label_divergent(engine, traces, horizon=horizon, stop_ids=STOP) == expected


def alphabet(history: list[int] | tuple[int, ...]) -> int:
    """1, 2, 3, … whatever was said before: a wrong token changes nothing afterwards."""
    return len(history) % 5 + 1


@pytest.mark.parametrize(
    ("answer", "small", "labels"),
    [
        ([2, 3, 4, 5, 1], [2, 3, 4, 5, 1], [0, 0, 0, 0, 0]),
        ([2, 3, 4, 5, 1], [9, 3, 4, 5, 1], [0, 0, 0, 0, 0]),  # four more tokens stay the same
        ([2, 3, 4, 5, 1], [2, 3, 9, 5, 1], [0, 0, -1, 0, 0]),  # two more, then it was cut off
        ([2, 3, 4, 5, 1], [2, 3, 4, 5, 9], [0, 0, 0, 0, -1]),
        ([2, 3, 4, 5, 1], [2, 0, 4, 5, 1], [0, 1, 0, 0, 0]),  # it would have stopped
        ([2, 3, 4, 5, 0], [2, 3, 4, 5, 1], [0, 0, 0, 0, 1]),  # it would have gone on
    ],
)
def test_labels_by_hand(answer: list[int], small: list[int], labels: list[int]) -> None:
    engine = ScriptedEngine(lambda history: alphabet(tuple(history)), vocab=10)
    traces = [trace_of(engine, [1], answer, small)]
    assert label_divergent(engine, traces, horizon=3, stop_ids=STOP) == [labels]


def test_an_answer_that_ended_shows_its_last_tokens_too() -> None:
    """The text ends 4, 0 with either token: neutral, though fewer than the horizon remain."""
    engine = ScriptedEngine(lambda history: [7, 2, 3, 4, 0][len(history)], vocab=10)
    traces = [trace_of(engine, [7], [2, 3, 4, 0], [2, 9, 4, 0])]
    assert label_divergent(engine, traces, horizon=8, stop_ids=STOP) == [[0, 0, 0, 0]]


def test_two_ways_to_end_are_one() -> None:
    engine = ScriptedEngine(rule(1, 9), vocab=9)
    traces = [trace_of(engine, [7], [2, 0], [2, 8])]
    assert label_divergent(engine, traces, horizon=8, stop_ids=STOP | {8}) == [[0, 0]]
    assert engine.steps == 0


def test_nothing_differs_nothing_runs() -> None:
    engine = ScriptedEngine(rule(1, 5), vocab=5)
    traces = [trace_of(engine, [1, 2], [3, 4], [3, 4])]
    assert label_divergent(engine, traces, horizon=8, stop_ids=STOP) == [[0, 0]]
    assert label_divergent(engine, [], horizon=8, stop_ids=STOP) == []
    assert engine.steps == 0


def test_an_engine_without_logits() -> None:
    engine = ScriptedEngine(rule(1, 5), vocab=5, shows=frozenset())
    traces = [trace_of(engine, [1, 2], [3, 4], [1, 4])]
    with pytest.raises(PairError, match="shows no logits"):
        label_divergent(engine, traces, horizon=8, stop_ids=STOP)
