"""rbalance.decide.foresight: a row for each prompt, in time, whatever a predictor does."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from rbalance.decide.balancer_stats import BalancerStats
from rbalance.decide.foresight import Foreseen, Foresight
from rbalance.predict.predictions import Prior

PRIOR = Prior(("small", "large"), np.array([0.3, 0.6], np.float32), np.array([50, 80], np.float32))


@pytest.mark.asyncio
async def test_waiting_for_a_turn_is_inside_the_deadline() -> None:
    """Many who ask for explanations hold up a decision for its own deadline, not for theirs."""
    stats = BalancerStats()
    foresight = Foresight(lambda given: Foreseen(PRIOR.predictions(len(given))), PRIOR, 0.05, stats)
    await foresight._turn.acquire()  # somebody has it and keeps it
    found = await asyncio.wait_for(foresight.of(["p", "q"]), 30)
    foresight.close()
    assert found.predictions.quality.shape == (2, 2)
    assert found.predictions.from_prior.all()
    assert stats.predictor_late == 1


@pytest.mark.asyncio
@pytest.mark.parametrize("instant", [False, True])
@pytest.mark.parametrize("rows", [0, 1, 3])
async def test_another_number_of_rows_is_a_failure(instant: bool, rows: int) -> None:
    stats = BalancerStats()
    foresight = Foresight(lambda _: Foreseen(PRIOR.predictions(rows)), PRIOR, 60.0, stats, instant)
    found = await foresight.of(["p", "q"])
    foresight.close()
    assert found.predictions.quality.shape == (2, 2)
    assert found.predictions.from_prior.all()
    assert stats.predictor_failed == 1
    assert f"{rows} predictions for 2 prompts" in stats.last_failure
