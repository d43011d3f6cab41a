"""One point of a sweep: what was run, and what came of it."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from rbalance.cluster import article_cluster, scaled
from rbalance.errors import ConfigError
from rbalance.labels.bootstrap import mean_interval
from rbalance.policies.registry import Ingredients, PolicySpec
from rbalance.simulator.arrivals import at_rate, gamma, poisson, read_trace
from rbalance.simulator.outcome import Figures
from rbalance.simulator.policy_registry import DEPLOYED, open_policy
from rbalance.simulator.scheduler import DEPLOYMENTS
from rbalance.simulator.simulation import Simulation
from rbalance.tpot.online import OnlineTpot
from rbalance.tpot.xgboost_tpot import XgboostTpot

if TYPE_CHECKING:
    from rbalance.cluster import Cluster
    from rbalance.labels.embedded_labels import Labelled
    from rbalance.simulator.outcome import SimulationOutcome
    from rbalance.simulator.prompt_pool import PromptPool
    from rbalance.simulator.workload import SimulatedWorkload
    from rbalance.tpot.heads import TpotHeads
    from rbalance.tpot.model import TpotModel

RESAMPLES = 1000


class SweepPoint(msgspec.Struct, frozen=True, kw_only=True):
    """What to run.

    policy: as `open_policy` reads it.
    deployment: of DEPLOYMENTS, "" for the usual.
    instances: in all, of the article's mix.
    trace: a file whose arrivals, brought to `rate`, and lengths are taken instead; "" for none.
    """

    policy: str
    rate: float
    requests: int = 2000
    arrivals: Literal["poisson", "gamma"] = "poisson"
    deployment: str = ""
    instances: int = 13
    gateways: int = 1
    seed: int = 0
    trace: str = ""

    def check(self) -> None:
        """Raises ConfigError: something that cannot be run."""
        PolicySpec.parse(self.policy)
        if not 0 < self.rate < 1e6:
            raise ConfigError("rate", f"must be above 0, not {self.rate:g}")
        for field in ("requests", "gateways"):
            if (value := getattr(self, field)) < 1:
                raise ConfigError(field, f"must be 1 or more, not {value}")
        if self.deployment and self.deployment not in DEPLOYMENTS:
            raise ConfigError(
                "deployment", f"{self.deployment!r} is none of {', '.join(DEPLOYMENTS)}"
            )

    @property
    def deployed(self) -> str:
        """The deployment in effect."""
        return self.deployment or DEPLOYED.get(PolicySpec.parse(self.policy).name, "instant")


class SweepRow(msgspec.Struct, frozen=True, kw_only=True):
    """A point with its figures; intervals are 95 %, over requests."""

    point: SweepPoint
    figures: Figures
    e2e_interval: tuple[float, float]
    quality_interval: tuple[float, float]


def workload_of(point: SweepPoint, pool: PromptPool, cluster: Cluster) -> SimulatedWorkload:
    """The same for every policy at a rate. Raises ConfigError for a file that is no trace."""
    if not point.trace:
        make = gamma if point.arrivals == "gamma" else poisson
        return pool.workload(make(point.rate, point.requests, point.seed), cluster, point.seed)
    try:
        trace = read_trace(Path(point.trace), point.requests)
    except ValueError as error:
        raise ConfigError("trace", str(error)) from error
    arrival = at_rate(trace.at, point.rate)
    return pool.workload(arrival, cluster, point.seed).with_lengths_of(trace)


def ingredients(pool: PromptPool, cluster: Cluster, heads: TpotHeads | None = None) -> Ingredients:
    """What policies are made of on a simulated cluster.

    heads: for tpot=xgboost.
    """
    tiers = cluster.instances

    def tpot(kind: str) -> TpotModel | None:
        if kind == "online":
            return OnlineTpot(cluster.tpot_s.tolist())
        if kind == "xgboost":
            if heads is None:
                raise ConfigError("tpot", "xgboost needs trained heads: `rbalance fit-tpot`")
            return XgboostTpot(heads, [tier.name for tier in tiers])
        return None

    return Ingredients(cluster, pool.prior_of(cluster), _labelled(pool, cluster), tpot)


@lru_cache(maxsize=4)  # so that what is trained on it is trained once, too
def _labelled(pool: PromptPool, cluster: Cluster) -> Labelled:
    return pool.labelled(cluster)


def run_point(
    point: SweepPoint, pool: PromptPool, heads: TpotHeads | None = None
) -> SimulationOutcome:
    """Simulate it on the article's cluster, the pool's four models cheapest first.

    Raises ConfigError.
    """
    point.check()
    cluster = scaled(article_cluster(pool.models), point.instances)
    made_of = ingredients(pool, cluster, heads)
    policies = [open_policy(point.policy, made_of, point.seed) for _ in range(point.gateways)]
    workload = workload_of(point, pool, cluster)
    return Simulation(cluster, workload, policies, DEPLOYMENTS[point.deployed]).run()


def row_of(point: SweepPoint, outcome: SimulationOutcome) -> SweepRow:
    """Summed up."""
    done = outcome.finished == outcome.finished  # not NaN
    e2e, quality = (
        mean_interval(values[done], RESAMPLES) for values in (outcome.e2e, outcome.quality)
    )
    return SweepRow(
        point=point,
        figures=outcome.summary(),
        e2e_interval=(e2e.low, e2e.high),
        quality_interval=(quality.low, quality.high),
    )
