"""An assignment, a request of a batch of eight: as `benchmarks.scoring` has it, without NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

import trcore
from benchmarks.scoring import INSTANCES, MODELS, USUAL, WEIGHTS, cluster, requests
from benchmarks.unit_costs.conftest import Cost


@pytest.mark.parametrize("instances", INSTANCES)
def test_assign(cost: Cost, instances: int) -> None:
    rng = np.random.default_rng(instances)
    view, asked = cluster(instances, rng), requests(USUAL, rng)
    rules = trcore.AssignRules([0.5] * MODELS, [200.0] * MODELS)
    chosen, tokens = np.full((2, USUAL), -1, np.int32)

    def assigned() -> None:
        trcore.assign(view, rules, WEIGHTS, *asked, chosen, tokens, commit=False)

    cost(f"assign_us_{instances}", assigned, USUAL)
    assert (chosen >= 0).all()
    assert (chosen < instances).all()
