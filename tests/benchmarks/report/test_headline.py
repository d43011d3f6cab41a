from __future__ import annotations

import pytest

from benchmarks.report.comparison import Measurements, basis, ratio
from benchmarks.report.headline import MEANING, headline
from benchmarks.report.names import LLM_ONLY, OFFICIAL, OURS, STD_SERVING
from tests.benchmarks.report.figures import full_set, measured


def test_headline_figures_equal_those_worked_out_by_hand() -> None:
    assert headline(full_set()) == {
        "combinations": 15,
        "min_ratio": 2.0,  # r2r, low-effort: 200 / 100
        "max_ratio": 2.9875,  # me, high-effort: 239 / 80
        "llm_only_ratio_r2r": 1.5385,
        "llm_only_ratio_citer": 1.6154,
        "llm_only_ratio_co_llm": 1.6923,
        "llm_only_ratio_r_stitch": 1.7692,
        "llm_only_ratio_me": 1.8462,
        "scale_1_16": 9.0,
        "speed_kept_1_16": 0.55,
        "high_effort_kept": 0.995,
        "std_high_effort_kept": 0.8,
    }


def test_the_real_engine_s_figures_have_a_prefix_of_their_own() -> None:
    found = headline(
        [measured(name, speed, engine="real") for name, speed in ((OURS, 80.0), (LLM_ONLY, 100.0))]
    )
    assert found == {"real_llm_only_ratio_r2r": 0.8}


@pytest.mark.parametrize("missing", [OFFICIAL, STD_SERVING])
def test_a_combination_without_both_baselines_is_not_counted(missing: str) -> None:
    baselines = {OFFICIAL, STD_SERVING} - {missing}
    found = headline([measured(OURS, 9.0), *(measured(name, 1.0) for name in baselines)])
    assert "min_ratio" not in found
    assert "combinations" not in found


def test_every_figure_has_a_meaning() -> None:
    assert set(headline(full_set())) <= set(MEANING)


def test_open_loops_and_other_numbers_of_clients_are_not_mixed_in() -> None:
    only = Measurements([measured(OURS, 1.0, concurrency=0)], "profile")
    assert only.find(OURS, "r2r", "low-effort", 0) is None
    assert Measurements([measured(OURS, 1.0, concurrency=8)], "profile").all
    assert Measurements([measured(OURS, 1.0)], "real").all == []


def test_of_two_measurements_of_one_setting_the_later_counts() -> None:
    measurements = Measurements([measured(OURS, 1.0), measured(OURS, 2.0)], "profile")
    found = measurements.find(OURS, "r2r", "low-effort")
    assert found is not None
    assert found.throughput == 2.0


def test_steady_windows_are_compared_only_where_both_have_a_long_one() -> None:
    ours = measured(OURS, 100.0, steady=150.0)
    other = measured(STD_SERVING, 50.0, steady=60.0)
    assert basis([ours, other]) == "steady"
    assert ratio(ours, other) == 2.5
    for odd in (
        measured(STD_SERVING, 50.0),
        measured(STD_SERVING, 50.0, steady=60.0, steady_seconds=2.0),
        measured(STD_SERVING, 50.0, steady=60.0, unfinished=1),
    ):
        assert basis([ours, odd]) == "whole"
        assert ratio(ours, odd) == 2.0
