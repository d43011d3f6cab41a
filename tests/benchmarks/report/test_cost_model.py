from __future__ import annotations

import pytest

from benchmarks.report.cost_model import (
    PairCosts,
    Steps,
    at,
    cycle_ms,
    in_step_ms,
    large_alone_ms,
    least_ms,
    steps,
)

ARTICLE = PairCosts(small_ms=[6.0], large_ms=[27.9])
R2R = steps("r2r", 0.35)


def test_the_article_s_latencies() -> None:
    assert cycle_ms(ARTICLE, R2R) == pytest.approx(6.0 + 0.35 * 27.9)
    assert in_step_ms(ARTICLE, R2R, 4) == pytest.approx(6.0 / 4 + 0.35 * 27.9 / 1.4)
    assert in_step_ms(ARTICLE, R2R, 1) == pytest.approx(15.765)
    assert large_alone_ms(ARTICLE, 4) == pytest.approx(6.975)


@pytest.mark.parametrize(("n", "best"), [(2, 110.3), (4, 208.0), (8, 399.0), (16, 785.4)])
def test_the_optimum_of_delayed_batching_stays_below_the_bound(n: int, best: float) -> None:
    bound = 1e3 / least_ms(ARTICLE, R2R, n)
    assert best < bound < 1.35 * best


def test_on_shared_cores_the_steps_add_up_and_large_models_read_what_small_ones_wrote() -> None:
    costs = PairCosts(small_ms=[4.0, 6.0], large_ms=[8.0, 10.0], ingest_ms=3.0, shared=True)
    made = Steps(small=1.0, large=0.5)
    assert cycle_ms(costs, made) == 4.0 + 4.0 + 1.5
    assert least_ms(costs, made, 2) == 6.0 / 2 + 0.5 * 10.0 / 2 + 1.5
    apart = PairCosts(small_ms=[4.0, 6.0], large_ms=[8.0, 10.0], ingest_ms=3.0)
    assert least_ms(apart, made, 2) == cycle_ms(apart, made) / 2


def test_the_small_model_steps_for_each_token_unless_the_algorithm_leaves_steps_out() -> None:
    assert steps("co_llm", 0.25) == Steps(1.0, 0.25)
    assert steps("me", 0.25) == steps("r_stitch", 0.25) == Steps(0.75, 0.25)


def test_latency_at_a_mean_batch_size() -> None:
    step_ms = [10.0, 14.0, 20.0]
    assert [at(step_ms, b) for b in (1, 1.5, 3, 3.5, 9)] == [10.0, 12.0, 20.0, 20.0, 20.0]
