"""The policies by name: what a live balancer can use, apart from what needs labels."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import rbalance
from rbalance.cluster import article_cluster
from rbalance.errors import ConfigError
from rbalance.policies.registry import LIVE, NEED_LABELS, Ingredients, open_policy
from rbalance.simulator.policy_registry import POLICIES
from tests.support.rbalance.synthetic_pool import synthetic_pool

POOL = synthetic_pool()
CLUSTER = article_cluster()
LABELLED = Ingredients(CLUSTER, POOL.prior_of(CLUSTER), POOL.labelled(CLUSTER))
UNLABELLED = Ingredients(CLUSTER, POOL.prior_of(CLUSTER))

OPEN_ALL = """
import sys
import numpy as np
import rbalance
from rbalance.policies.registry import LIVE

cluster = rbalance.article_cluster()
prior = rbalance.Prior(cluster.models, np.full(4, 0.5, np.float32), np.full(4, 90, np.float32))
for name in LIVE:
    rbalance.open_policy(name, rbalance.Ingredients(cluster, prior))
print([name for name in sys.modules if name.startswith("rbalance.simulator")])
"""


def test_live_policies_need_nothing_of_the_simulator() -> None:
    run = subprocess.run(
        [sys.executable, "-c", OPEN_ALL], capture_output=True, text=True, check=True
    )
    assert run.stdout == "[]\n"


def test_the_simulator_adds_what_needs_labels_and_nothing_else() -> None:
    assert sorted(POLICIES) == sorted((*LIVE, *NEED_LABELS))


@pytest.mark.parametrize("name", NEED_LABELS)
def test_what_needs_labels_is_refused_by_a_live_balancer(name: str) -> None:
    with pytest.raises(ConfigError, match="trained on labelled prompts; there are none"):
        open_policy(name, LABELLED)
    with pytest.raises(ConfigError, match="trained on labelled prompts; there are none"):
        rbalance.open_policy(name, UNLABELLED)
    with pytest.raises(ConfigError, match=f"policy.{name}: 'x' is not key=value"):
        open_policy(f"{name}:x", UNLABELLED)


def test_with_labels_every_policy_can_be_had_by_name() -> None:
    state = rbalance.InstanceState(CLUSTER)
    batch = POOL.workload(np.arange(3.0), CLUSTER).batch([0, 1, 2])
    placed = rbalance.open_policy("best-route:threshold=1", LABELLED).decide(batch, state, 0.0)
    assert (placed.instance >= 0).all()


def test_an_unknown_name_is_told_all_there_are() -> None:
    with pytest.raises(ConfigError) as error:
        open_policy("best", UNLABELLED)
    assert str(error.value) == f"policy: 'best' is none of {', '.join(sorted(POLICIES))}"


def test_one_policy_has_weights() -> None:
    weighted = {
        name for name in LIVE if isinstance(open_policy(name, UNLABELLED), rbalance.WeightedPolicy)
    }
    assert weighted == {"route-balance"}
