"""A burst never herds onto a few of several equal instances, whatever telemetry says meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pytest

from rbalance.cluster import Cluster, Tier
from rbalance.decide.balancer import Balancer
from rbalance.decide.balancer_stats import BalancerStats
from rbalance.decide.foresight import Foreseen, Foresight
from rbalance.policies.batch import RequestBatch, RouteRequest
from rbalance.policies.policy import Placements, Policy
from rbalance.policies.registry import Ingredients
from rbalance.predict.fixed_predictor import FixedPredictor
from rbalance.simulator.policy_registry import open_policy
from rbalance.state.instance_state import InstanceState
from rbalance.state.telemetry import Telemetry

TIER = Tier(
    name="t", model="m", instances=8, price_in=1, price_out=1, tpot_s=0.02, prefill_rate=5000
)
CLUSTER = Cluster((TIER,))
PREDICTOR = FixedPredictor({"m": (0.5, 200.0)})
BURST = 800
DECISION_S = 0.02
"""Virtual time from one decision to the next."""


@dataclass
class Servers:
    """What really is in flight, now and at every decision before; time goes on by decisions."""

    states: list[InstanceState] = field(default_factory=list)
    history: list[np.ndarray] = field(default_factory=list)

    @property
    def now(self) -> float:
        return len(self.history) * DECISION_S

    def in_flight(self) -> np.ndarray:
        return sum(
            (state.in_flight.running + state.in_flight.waiting for state in self.states),
            start=np.zeros(8, np.int64),
        )

    def seen(self, seconds_ago: float) -> np.ndarray:
        at = len(self.history) - 1 - round(seconds_ago / DECISION_S)
        return self.history[at] if at >= 0 else np.zeros(8, np.int64)


Tell = Callable[[InstanceState, Servers], None]


def tell(state: InstanceState, servers: Servers, loads: np.ndarray) -> None:
    for at, load in enumerate(loads.tolist()):
        running = min(load, TIER.slots)
        state.report(at, Telemetry(running, load - running), servers.now)


def nothing(state: InstanceState, servers: Servers) -> None:
    pass


def always_idle(state: InstanceState, servers: Servers) -> None:
    tell(state, servers, np.zeros(8, np.int64))


def at_first_only(state: InstanceState, servers: Servers) -> None:
    if len(servers.history) == 1:
        tell(state, servers, np.zeros(8, np.int64))
    else:
        for at in range(8):
            state.report_failed(at)


def late(state: InstanceState, servers: Servers) -> None:
    tell(state, servers, servers.seen(0.2))


@dataclass
class Watched:
    """A policy; before each of its decisions telemetry comes in."""

    inner: Policy
    servers: Servers
    tell: Tell
    uses_vectors: ClassVar[bool] = False
    draws: ClassVar[bool] = False

    def decide(self, batch: RequestBatch, state: InstanceState, now: float) -> Placements:
        self.servers.history.append(self.servers.in_flight())
        self.tell(state, self.servers)
        state.refresh(now)
        return self.inner.decide(batch, state, now)

    def observe(self, instance: int, tokens: int, seconds: float, now: float) -> None:
        pass


def balancer(servers: Servers, policy: str, tell: Tell) -> Balancer:
    state, stats = InstanceState(CLUSTER, PREDICTOR.prior.length.tolist()), BalancerStats()
    servers.states.append(state)
    inner = open_policy(policy, Ingredients(CLUSTER, PREDICTOR.prior))
    foresight = Foresight(
        lambda prompts: Foreseen(PREDICTOR.predict(prompts)), PREDICTOR.prior, 1, stats, True
    )
    watched = Watched(inner, servers, tell)
    return Balancer(state, watched, foresight, stats, clock=lambda: servers.now)


def requests(count: int, seed: int) -> list[RouteRequest]:
    prompts = np.random.default_rng(seed).integers(20, 2000, count)
    return [
        RouteRequest(key=key, prompt="p", prompt_tokens=int(tokens), max_tokens=500)
        for key, tokens in enumerate(prompts)
    ]


@pytest.mark.asyncio
@pytest.mark.parametrize("policy", ["route-balance:weights=balanced", "route-balance:weights=cost"])
@pytest.mark.parametrize("tell", [nothing, always_idle, at_first_only, late])
async def test_a_burst_is_spread_evenly(policy: str, tell: Tell) -> None:
    servers = Servers()
    async with balancer(servers, policy, tell) as one:
        asked = [one.route(request) for request in requests(BURST, 1)]
        await asyncio.wait_for(asyncio.gather(*asked), 60)
    loads = servers.in_flight()
    assert loads.sum() == BURST
    assert loads.max() / loads.mean() <= 1.1
    assert len(servers.history) >= BURST / 32


@pytest.mark.asyncio
@pytest.mark.parametrize("policy", ["route-balance:weights=balanced", "route-balance:weights=cost"])
@pytest.mark.parametrize("tell", [nothing, always_idle, at_first_only, late])
async def test_two_that_see_each_other_through_telemetry_alone_do_not_herd_together(
    policy: str, tell: Tell
) -> None:
    servers = Servers()
    async with (
        balancer(servers, policy, tell) as one,
        balancer(servers, policy, tell) as two,
    ):
        asked = [one.route(request) for request in requests(BURST // 2, 1)]
        asked += [two.route(request) for request in requests(BURST // 2, 2)]
        await asyncio.wait_for(asyncio.gather(*asked), 60)
    loads = servers.in_flight()
    assert loads.sum() == BURST
    assert loads.max() / loads.mean() <= 1.1
