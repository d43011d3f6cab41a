"""mapped_predictor and fixed_predictor: a pool's models in others' terms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbalance.errors import ConfigError
from rbalance.predict.fixed_predictor import FixedPredictor
from rbalance.predict.mapped_predictor import MappedPredictor, PredictAs
from rbalance.predict.predictions import Predictions, Prior
from tests.support.rbalance.arrays import NAN, f32


class Known:
    """A predictor of three models; the prompt "new" is like nothing that was labelled for "b"."""

    instant: ClassVar[bool] = False
    prior = Prior(("a", "b", "c"), f32([0.2, 0.5, 0.8]), f32([10, 100, 1000]))

    def predict(self, prompts: Sequence[str]) -> Predictions:
        return Predictions(
            quality=f32([[0.25, 0.5, 1.0]] * len(prompts)),
            length=f32([[16, 64, 256]] * len(prompts)),
            from_prior=np.array([[False, prompt == "new", False] for prompt in prompts]),
        )


def test_a_model_is_a_known_one_a_blend_or_fixed() -> None:
    mapped = MappedPredictor(
        Known(), {"small": "a", "pair": {"a": 0.25, "b": 0.75}, "odd": (0.4, 33.0), "large": "c"}
    )
    assert mapped.prior.models == ("small", "pair", "odd", "large")
    np.testing.assert_allclose(mapped.prior.quality, [0.2, 0.425, 0.4, 0.8])
    np.testing.assert_allclose(mapped.prior.length, [10, 77.5, 33, 1000])
    found = mapped.predict(["known", "new"])
    np.testing.assert_array_equal(found.quality, f32([[0.25, 0.4375, 0.4, 1.0]] * 2))
    np.testing.assert_array_equal(found.length, f32([[16, 52, 33, 256]] * 2))
    assert found.quality.dtype == found.length.dtype == np.float32
    assert found.from_prior.tolist() == [[False, False, True, False], [False, True, True, False]]


@given(st.lists(st.integers(0, 5), min_size=3, max_size=3).filter(any))
def test_a_blend_lies_between_what_it_is_made_of(parts: list[int]) -> None:
    shares = {name: part / sum(parts) for name, part in zip("abc", parts, strict=True)}
    blended = MappedPredictor(Known(), {"pair": shares}).predict(["x"])
    used = [name for name, share in shares.items() if share]
    alone = MappedPredictor(Known(), {name: name for name in used}).predict(["x"])
    for column in ("quality", "length"):
        (value,), among = getattr(blended, column)[0], getattr(alone, column)[0]
        assert value <= 1 or column == "length"
        assert among.min() * (1 - 1e-6) <= value <= among.max() * (1 + 1e-6)


@pytest.mark.parametrize(
    ("predict_as", "says"),
    [
        ("d", "'d' is none of a, b, c"),
        ({"a": 0.5, "d": 0.5}, "'d' is none of a, b, c"),
        ({"a": 1.5, "b": -0.5}, "the share of 'b' must be 0 or more, not -0.5"),
        ({"a": NAN, "b": 1.0}, "the share of 'a' must be 0 or more, not nan"),
        ({"a": 0.3, "b": 0.6}, "the shares sum to 0.9, not 1"),
        ({}, "the shares sum to 0, not 1"),
        ((1.5, 10.0), "quality must be from 0 to 1, not 1.5"),
        ((0.5, 0.0), "length must be 1 token or more, not 0.0"),
        ((0.5, NAN), "length must be 1 token or more, not nan"),
    ],
)
def test_what_cannot_be_is_named(predict_as: PredictAs, says: str) -> None:
    columns: Mapping[str, PredictAs] = {"fine": "a", "pair": predict_as}
    with pytest.raises(ConfigError, match=rf"models\.pair\.predict_as: {says}"):
        MappedPredictor(Known(), columns)


def test_fixed_expectations_are_predicted_of_every_prompt_at_once() -> None:
    fixed = FixedPredictor({"small": (0.25, 80.0), "large": (0.75, 120.0)})
    assert fixed.instant
    assert not MappedPredictor(Known(), {"small": "a"}).instant
    assert fixed.prior.models == ("small", "large")
    found = fixed.predict(["a", "b"])
    np.testing.assert_array_equal(found.quality, f32([[0.25, 0.75]] * 2))
    np.testing.assert_array_equal(found.length, f32([[80, 120]] * 2))
    assert found.from_prior.all()
    blended = MappedPredictor(fixed, {"pair": {"small": 0.5, "large": 0.5}})
    assert blended.instant
    np.testing.assert_array_equal(blended.predict(["a"]).length, f32([[100]]))
    with pytest.raises(ConfigError, match=r"models\.small\.predict_as: quality"):
        FixedPredictor({"small": (2.0, 80.0)})
