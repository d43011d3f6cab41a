"""rbalance.policies.weights and rbalance.decide.slo_controller."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbalance.decide.slo_controller import RELIEF, SloController, SloSettings, next_share
from rbalance.errors import ConfigError
from rbalance.policies.weights import PRESETS, Weights, parse_weights

SLO = SloSettings(target_s=2.0, base=PRESETS["quality"], hysteresis=0.1, rate=0.2, recovery=0.5)


@pytest.mark.parametrize(
    ("shares", "says"),
    [
        ((0.5, 0.6, 0.2), "weights: quality, cost and latency sum to 1.3, not 1"),
        ((-0.1, 0.6, 0.5), "weights.quality: must be from 0 to 1, not -0.1"),
        ((0.5, math.nan, 0.5), "weights.cost: must be from 0 to 1, not nan"),
        ((0.0, 0.0, 1.1), "weights.latency: must be from 0 to 1, not 1.1"),
    ],
)
def test_weights_that_are_none_are_refused(shares: tuple[float, float, float], says: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(says)):
        Weights(*shares)


def test_weights_are_named_or_given_as_numbers() -> None:
    assert set(PRESETS) == {"quality", "balanced", "latency", "cost", "uniform"}
    assert parse_weights("latency") is PRESETS["latency"]
    assert parse_weights("0.6/0.1/0.3") == Weights(0.6, 0.1, 0.3)


simplex = st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(0.001, 1)).map(
    lambda parts: Weights(*(part / sum(parts) for part in parts))
)


@given(simplex, simplex, st.floats(0, 1))
def test_between_two_weight_vectors_lies_another(one: Weights, two: Weights, share: float) -> None:
    between = one.toward(two, share)
    assert between.quality == pytest.approx(one.quality + share * (two.quality - one.quality))
    assert between.latency == pytest.approx(
        one.latency + share * (two.latency - one.latency), abs=1e-9
    )


def test_the_share_moves_off_target_only_and_no_faster_than_it_may() -> None:
    assert next_share(0.5, 2.0, 1.0, SLO) == 0.5
    assert next_share(0.5, 2.19, 1.0, SLO) == 0.5, "inside the band"
    assert next_share(0.5, 1.81, 1.0, SLO) == 0.5
    assert next_share(0.5, math.nan, 1.0, SLO) == 0.5, "nothing ended"
    assert next_share(0.5, 3.0, 1.0, SLO) == pytest.approx(0.5 + 0.2 * 0.5)
    assert next_share(0.5, 200.0, 1.0, SLO) == pytest.approx(0.7)
    assert next_share(0.5, 1.0, 1.0, SLO) == pytest.approx(0.5 - 0.2 * 0.5 * 0.5)
    assert next_share(0.95, 200.0, 1.0, SLO) == 1.0
    assert next_share(0.01, 0.0, 1.0, SLO) == 0.0


@given(st.lists(st.tuples(st.floats(0.01, 100), st.floats(0.1, 5)), max_size=30))
def test_whatever_is_observed_the_weights_are_weights_and_move_slowly(
    seen: list[tuple[float, float]],
) -> None:
    controller, now, before = SloController(SLO), 0.0, 0.0
    for latency, elapsed in seen:
        controller.observe(latency)
        now += elapsed
        assert math.isclose(sum(controller.move(now)), 1)
        assert abs(controller.share - before) <= SLO.rate * elapsed + 1e-9
        before = controller.share
    assert 0 <= controller.share <= 1


def test_after_a_long_pause_they_move_no_more_than_in_one_window() -> None:
    slow = SloSettings(target_s=2.0, base=PRESETS["quality"], rate=0.01)
    controller = SloController(slow, now=500.0)
    controller.observe(50.0)
    controller.move(1000.0)
    assert controller.share == pytest.approx(slow.rate * slow.window_s)


def test_another_base_keeps_the_share_of_the_way() -> None:
    controller = SloController(SLO)
    controller.observe(50.0)
    controller.move(2.0)
    share = controller.share
    assert 0 < share < 1
    controller.rebase(PRESETS["cost"])
    assert controller.share == share
    assert controller.weights == PRESETS["cost"].toward(RELIEF, share)
    assert controller.move(2.0) == controller.weights


def test_a_controller_ends_at_relief_or_at_its_base() -> None:
    controller = SloController(SLO)
    for second in range(1, 20):
        controller.observe(50.0)
        controller.move(float(second))
    assert controller.weights == RELIEF
    for second in range(20, 200):
        controller.observe(0.5)
        controller.move(float(second))
    assert tuple(controller.weights) == pytest.approx(tuple(PRESETS["quality"]))


def test_settings_that_cannot_be_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"slo\.target_s"):
        SloSettings(target_s=0, base=PRESETS["quality"])
    with pytest.raises(ConfigError, match=r"slo\.hysteresis"):
        SloSettings(target_s=1, base=PRESETS["quality"], hysteresis=1)
