"""rbalance.predict.evaluation, calibration and bootstrap: figures that can be checked by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbalance.errors import ConfigError, TrainingError
from rbalance.labels.bootstrap import mean_interval
from rbalance.labels.training_set import TrainingSet
from rbalance.predict.calibration import calibration
from rbalance.predict.evaluation import evaluate
from rbalance.predict.predictions import Predictions, Prior
from tests.support.rbalance.arrays import NAN, f32

MODELS = ("cheap", "dear")
PRIOR = Prior(MODELS, f32([0.4, 0.6]), f32([100, 200]))
PRICES = {"cheap": (1.0, 2.0), "dear": (10.0, 20.0)}


def labelled(quality: list[list[float]], length: list[list[float]]) -> TrainingSet:
    prompts = tuple("x" * 400 for _ in quality)  # 100 tokens
    return TrainingSet(MODELS, prompts, f32(quality), f32(length))


def predicted(quality: list[list[float]], length: list[list[float]]) -> Predictions:
    return Predictions(f32(quality), f32(length), np.zeros((len(quality), 2), np.bool_))


def test_choices_are_judged_by_the_true_scores() -> None:
    data = labelled([[1, 1], [0, 1], [1, 0], [0, 0]], [[100, 300]] * 4)
    found = evaluate(
        data,
        predicted([[0.9, 0.5], [0.2, 0.7], [0.3, 0.7], [0.1, 0.2]], [[120, 260]] * 4),
        PRIOR,
        PRICES,
    )

    assert found.prompts == 4
    assert found.accuracy.mean == 0.75  # all but the third: a tie with the best counts
    assert list(found.choices) == ["routed", "oracle", "always dear", "always cheap"]
    routed, oracle = found.choices["routed"], found.choices["oracle"]
    assert (routed.quality.mean, routed.regret.mean, routed.gain.mean) == (0.5, 0.25, 0.0)
    assert (oracle.quality.mean, oracle.regret.mean, oracle.gain.mean) == (0.75, 0.0, 0.25)
    assert found.choices["always cheap"].usd == pytest.approx((100 * 1 + 100 * 2) / 1e6)
    assert found.choices["always dear"].usd == pytest.approx((100 * 10 + 300 * 20) / 1e6)
    assert routed.usd == pytest.approx((300 + 3 * 7000) / 4 / 1e6)
    assert found.length is not None
    assert (found.length.predicted, found.length.prior) == (30.0, 50.0)


def test_prompts_without_every_score_count_for_calibration_only() -> None:
    data = labelled([[1, 0], [NAN, 1]], [[NAN, NAN]] * 2)
    found = evaluate(data, predicted([[1, 0], [0, 1]], [[1, 1]] * 2), PRIOR)
    assert (found.prompts, found.calibration.pairs, found.length) == (1, 3, None)
    assert "always cheap" not in found.choices
    assert found.choices["routed"].usd is None


def test_nothing_to_judge_by_is_refused() -> None:
    data = labelled([[1, NAN], [NAN, 1]], [[1, 1]] * 2)
    with pytest.raises(TrainingError, match="no prompt to evaluate has a score of every model"):
        evaluate(data, predicted([[1, 0]] * 2, [[1, 1]] * 2), PRIOR)


@pytest.mark.parametrize("prices", [{"cheap": (1.0, 1.0)}, {**PRICES, "other": (1.0, 1.0)}])
def test_prices_are_of_these_models(prices: dict[str, tuple[float, float]]) -> None:
    data = labelled([[1, 0]], [[1, 1]])
    with pytest.raises(ConfigError, match=r"prices: .*cheap, dear"):
        evaluate(data, predicted([[1, 0]], [[1, 1]]), PRIOR, prices)


def test_calibration_by_hand() -> None:
    found = calibration(f32([[0.05, 0.95], [0.05, 1.0]]), f32([[0, 1], [1, NAN]]), f32([0.5, 1.0]))
    assert found.pairs == 3
    assert [(each.pairs, each.scored) for each in found.bins] == [(2, 0.5), (1, 1.0)]
    assert found.ece == pytest.approx((2 * 0.45 + 1 * 0.05) / 3, abs=1e-6)
    assert found.squared_error == pytest.approx((0.05**2 + 0.95**2 + 0.05**2) / 3, abs=1e-6)
    assert found.prior_squared_error == pytest.approx((0.25 + 0.25 + 0.0) / 3)


def test_the_truth_is_perfectly_calibrated() -> None:
    scored = np.random.default_rng(0).integers(0, 2, (500, 3)).astype(np.float32)
    found = calibration(scored, scored, f32([0.5, 0.5, 0.5]))
    assert (found.ece, found.squared_error) == (0.0, 0.0)
    assert sum(each.pairs for each in found.bins) == 1500


@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=40), st.integers(0, 9))
def test_an_interval_holds_its_mean_within_the_values(values: list[float], seed: int) -> None:
    found = mean_interval(np.array(values), resamples=200, seed=seed)
    assert found == mean_interval(np.array(values), resamples=200, seed=seed)
    assert min(values) - 1e-9 <= found.low <= found.high <= max(values) + 1e-9


def test_an_interval_covers_the_true_mean_about_19_times_of_20() -> None:
    rng = np.random.default_rng(5)
    covered = 0
    for _ in range(200):
        found = mean_interval(rng.random(100) < 0.3, resamples=400, seed=int(rng.integers(2**31)))
        covered += found.low <= 0.3 <= found.high
    assert 0.88 <= covered / 200 <= 0.99
