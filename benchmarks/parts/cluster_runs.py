"""The runs of `benchmarks.cluster`: points of one pool, simulated once and told of."""

from __future__ import annotations

from typing import Any

from benchmarks.parts.cluster_pool import NamedPool
from rbalance.cluster import article_cluster
from rbalance.simulator.arrivals import poisson
from rbalance.simulator.outcome import SimulationOutcome
from rbalance.simulator.point import SweepPoint, ingredients, run_point
from rbalance.simulator.policy_registry import open_policy
from rbalance.simulator.scheduler import Scheduler
from rbalance.simulator.simulation import Simulation
from rbalance.tpot.heads import TpotHeads

COLUMNS = ("E2E s", "p99 s", "resid ms", "quality", "1e-5 $", "req/s", "batch")
HEADING = f"{'':58}" + "".join(
    f"{name:>{width}}" for name, width in zip(COLUMNS, (8, 8, 9, 8, 8, 7, 6), strict=True)
)


class Runs:
    """Runs points of one pool, once each, and tells of them.

    requests: of a run, unless it says otherwise.
    most: where intervals have to be narrow.
    """

    def __init__(self, named: NamedPool, requests: int, most: int) -> None:
        self.pool = named.pool
        self.cluster = article_cluster(named.pool.models)
        self.requests = requests
        self.most = most
        self._known: dict[SweepPoint, SimulationOutcome] = {}

    def run(
        self,
        policy: str,
        rate: float,
        deployment: str = "",
        heads: TpotHeads | None = None,
        requests: int | None = None,
    ) -> SimulationOutcome:
        n = requests or self.requests
        point = SweepPoint(policy=policy, rate=rate, requests=n, deployment=deployment)
        if point not in self._known:
            self._known[point] = outcome = run_point(point, self.pool, heads)
            tell(f"λ={rate:<3g} {policy} {deployment}", outcome)
        return self._known[point]

    def simulate(
        self, policy: str, rate: float, scheduler: Scheduler, **more: Any
    ) -> SimulationOutcome:
        """With a scheduler of its own; not kept."""
        made = open_policy(policy, ingredients(self.pool, self.cluster))
        workload = self.pool.workload(poisson(rate, self.requests, 0), self.cluster)
        return Simulation(self.cluster, workload, [made], scheduler, **more).run()


def tell(name: str, outcome: SimulationOutcome) -> None:
    of = outcome.summary()
    print(
        f"{name:58}{of.e2e_s:8.2f}{of.e2e_p99_s:8.1f}{of.residual_s * 1e3:9.0f}{of.quality:8.3f}"
        f"{of.usd * 1e5:8.2f}{of.throughput:7.1f}{of.mean_batch:6.1f}",
        flush=True,
    )
