"""training_set: labels as arrays, what is refused, and which prompts are held out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbalance import LabelledPrompt
from rbalance.errors import ConfigError, TrainingError
from rbalance.labels.training_set import TrainingSet, held_out, prompt_digests
from tests.support.rbalance.arrays import NAN, f32


def record(name: str, scores: dict[str, float], **chars: int) -> LabelledPrompt:
    return LabelledPrompt(
        id=name, source="toy", prompt=f"prompt {name}", scores=scores, out_chars=chars
    )


RECORDS = [
    record("1", {"small": 0.0, "large": 1.0}, small=40, large=300),
    record("2", {"small": 1.0}),
    record("3", {"large": 0.5, "other": 1.0}, large=100),
]


def test_labels_become_columns_and_characters_become_tokens() -> None:
    data = TrainingSet.from_records(RECORDS, ["large", "small"], {"large": 5.0})

    assert data.models == ("large", "small")
    assert data.prompts == ("prompt 1", "prompt 2", "prompt 3")
    np.testing.assert_array_equal(data.quality, f32([[1, 0], [NAN, 1], [0.5, NAN]]))
    np.testing.assert_array_equal(data.length, f32([[60, 10], [NAN, NAN], [20, NAN]]))


def test_without_a_choice_every_model_is_a_column_and_prompts_of_none_are_left_out() -> None:
    assert TrainingSet.from_records(RECORDS).models == ("large", "other", "small")
    assert TrainingSet.from_records(RECORDS, ["small"]).prompts == ("prompt 1", "prompt 2")


def test_an_empty_set_is_refused() -> None:
    with pytest.raises(TrainingError, match="nothing to learn from: 0 prompts"):
        TrainingSet.from_records([])


def test_a_model_that_nobody_scored_is_named_with_those_there_are() -> None:
    with pytest.raises(TrainingError, match=r"'huge'.*large, other, small"):
        TrainingSet.from_records(RECORDS, ["small", "huge"])


def test_taking_prompts_that_leave_a_model_without_scores_is_refused() -> None:
    data = TrainingSet.from_records(RECORDS)
    with pytest.raises(TrainingError, match="'other' has no score"):
        data.take(np.array([True, True, False]))


@pytest.mark.parametrize("score", [-0.1, 1.1, float("inf")])
def test_impossible_scores_are_refused_and_nan_is_no_score(score: float) -> None:
    length = np.full((2, 1), NAN, np.float32)
    with pytest.raises(TrainingError, match=r"prompt 1: score .* of model 'm' is not from 0 to 1"):
        TrainingSet(("m",), ("a", "b"), f32([[0.5], [score]]), length)
    assert TrainingSet(("m",), ("a", "b"), f32([[0.5], [NAN]]), length).models == ("m",)


@pytest.mark.parametrize("ratio", [0.0, -1.0, NAN, float("inf")])
def test_a_ratio_of_characters_per_token_is_above_zero(ratio: float) -> None:
    with pytest.raises(ConfigError) as caught:
        TrainingSet.from_records(RECORDS, ["small"], ratio)
    assert caught.value.field == "chars_per_token"


def test_a_ratio_for_a_model_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match="no model is called 'smal'"):
        TrainingSet.from_records(RECORDS, ["small"], {"smal": 3.0})


@given(st.lists(st.text(), min_size=1), st.integers(0, 5))
def test_held_out_prompts_depend_on_their_own_text_alone(prompts: list[str], seed: int) -> None:
    together = held_out(prompts, 0.5, seed)
    alone = [bool(held_out([prompt], 0.5, seed)[0]) for prompt in prompts]
    assert together.tolist() == alone


def test_held_out_is_the_share_asked_for() -> None:
    prompts = [f"prompt {number}" for number in range(4000)]
    assert held_out(prompts, 0.2).mean() == pytest.approx(0.2, abs=0.02)
    assert not held_out(prompts, 0.0).any()
    assert (held_out(prompts, 0.2, seed=0) != held_out(prompts, 0.2, seed=1)).any()
    with pytest.raises(ConfigError, match="hold_out"):
        held_out(prompts, 1.0)


def test_digests_tell_texts_apart_also_those_that_are_not_unicode() -> None:
    digests = prompt_digests(["", "a", "b", "\ud800"])
    assert len(set(digests.tolist())) == 4
    assert prompt_digests(["b"])[0] == digests[2]
