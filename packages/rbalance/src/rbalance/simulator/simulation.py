"""The discrete-event simulation: arrivals, decisions and tokens in order of their virtual time.

Batches are formed by `decide.batching`, decided by a policy and accounted for by an InstanceState,
all of them as a live gateway has them; only time, predictions and instances are simulated.
"""

from __future__ import annotations

import heapq
import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rbalance.decide.batching import BatchQueue
from rbalance.decide.slo_controller import SloController
from rbalance.errors import ConfigError
from rbalance.policies.policy import NO_INSTANCE
from rbalance.simulator.answers import Answers
from rbalance.simulator.instance import SimulatedAnswer, SimulatedInstance
from rbalance.simulator.outcome import SimulationOutcome
from rbalance.state.instance_state import InstanceState
from rbalance.state.telemetry import Telemetry

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from rbalance.cluster import Cluster
    from rbalance.decide.slo_controller import SloSettings
    from rbalance.policies.policy import Placements, Policy, WeightedPolicy
    from rbalance.simulator.scheduler import Scheduler
    from rbalance.simulator.workload import SimulatedWorkload

TELEMETRY_S = 0.2
SLO_EVERY_S = 1.0


class SimulatedGateway:
    """One of those that share the instances: what it knows, waits for and decides by."""

    def __init__(self, state: InstanceState, policy: Policy, scheduler: Scheduler) -> None:
        self.state = state
        self.policy = policy
        self.queue = BatchQueue[int](scheduler.sizing, scheduler.deciders)
        self.wake_at = math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class SloControl:
    """An SLO controller that sets the weights of `policy` every second."""

    settings: SloSettings
    policy: WeightedPolicy


class Simulation:
    """One run over a workload.

    policies: one for each gateway; requests go to them in turn.
    record_tpot: keep a row for each answer, to train TPOT heads with.
    decided: called with each decision before it takes effect, as (gateway, rows, placements).
    """

    def __init__(
        self,
        cluster: Cluster,
        workload: SimulatedWorkload,
        policies: Sequence[Policy],
        scheduler: Scheduler,
        *,
        control: SloControl | None = None,
        record_tpot: bool = False,
        decided: Callable[[SimulatedGateway, list[int], Placements], None] | None = None,
    ) -> None:
        """Raises ConfigError: no policy, or no instance."""
        if not cluster.instances:
            raise ConfigError("tiers", "there is no instance to send a request to")
        if not policies:
            raise ConfigError("policies", "each gateway needs one, and there must be a gateway")
        self._workload = workload
        self._arrival: list[float] = workload.arrival.tolist()
        self._scheduler = scheduler
        self._instances = [SimulatedInstance(tier) for tier in cluster.instances]
        self._versions = [0] * len(self._instances)
        typical = workload.prior.length.tolist()
        self.gateways = [
            SimulatedGateway(InstanceState(cluster, typical), policy, scheduler)
            for policy in policies
        ]
        self.outcome = SimulationOutcome.empty(workload.arrival)
        self._answers = Answers(cluster, workload, self.outcome, record_tpot)
        self._control = control
        self._slo = SloController(control.settings) if control else None
        self._decided = decided
        self._unfinished = len(workload)
        self._events: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._order = 0

    def run(self) -> SimulationOutcome:
        """Until every request has ended."""
        self._at(self._arrival[0], self._arrive, 0)
        self._at(0.0, self._poll)
        if self._slo is not None:
            self._at(SLO_EVERY_S, self._move_weights)
        while self._unfinished:
            now, _, happens, arguments = heapq.heappop(self._events)
            happens(now, *arguments)
        return self.outcome

    def _at(self, when: float, happens: Callable[..., None], *arguments: object) -> None:
        self._order += 1
        heapq.heappush(self._events, (when, self._order, happens, arguments))

    def _arrive(self, now: float, row: int) -> None:
        gateway = self.gateways[row % len(self.gateways)]
        gateway.queue.add(row, now)
        self._start_batches(now, gateway)
        if row + 1 < len(self._arrival):
            self._at(self._arrival[row + 1], self._arrive, row + 1)

    def _start_batches(self, now: float, gateway: SimulatedGateway) -> None:
        while rows := gateway.queue.take(now):
            done = now + self._scheduler.time.seconds(len(rows))
            deadline = max(now, self._arrival[rows[0]] + self._scheduler.timeout_s)
            late = done > deadline
            self.outcome.batches += 1
            self.outcome.late += late
            self._at(min(done, deadline), self._decide, gateway, rows, late)
        due = gateway.queue.due()
        if now < due < gateway.wake_at:
            gateway.wake_at = due
            self._at(due, self._wake, gateway)

    def _wake(self, now: float, gateway: SimulatedGateway) -> None:
        gateway.wake_at = math.inf
        self._start_batches(now, gateway)

    def _decide(self, now: float, gateway: SimulatedGateway, rows: list[int], late: bool) -> None:
        gateway.state.refresh(now)
        batch = self._workload.batch(rows, late)
        began = time.perf_counter()
        placements = gateway.policy.decide(batch, gateway.state, now)
        took = time.perf_counter() - began
        self.outcome.policy_s += took
        self.outcome.rerouted += placements.rerouted
        self.outcome.unusable += placements.unusable
        if self._decided is not None:
            self._decided(gateway, rows, placements)
        lengths = batch.predictions.length
        if self._scheduler.measured:
            self._at(now + took, self._dispatch, gateway, rows, placements, lengths)
        else:
            self._dispatch(now, gateway, rows, placements, lengths)

    def _dispatch(
        self,
        now: float,
        gateway: SimulatedGateway,
        rows: list[int],
        placements: Placements,
        lengths: NDArray[np.float32],
    ) -> None:
        for at, (row, instance) in enumerate(zip(rows, placements.instance.tolist(), strict=True)):
            if instance == NO_INSTANCE:
                self._unfinished -= 1
                continue
            together = (instance, *placements.also.get(at, ()))
            self._answers.open(row, together, placements.then.get(at, ()), lengths[at])
            for each in together:
                self._send(now, gateway, row, each)
        gateway.queue.decided(gateway.state.congested())
        self._start_batches(now, gateway)

    def _send(self, now: float, gateway: SimulatedGateway, row: int, instance: int) -> None:
        key, prompt, tokens, predicted = self._answers.send(now, gateway.state, row, instance)
        gateway.state.dispatch(key, instance, prompt, predicted, now)
        self._advance(now, instance)
        self._instances[instance].submit(SimulatedAnswer(key, prompt, tokens), now)
        self._schedule(instance)

    def _schedule(self, instance: int) -> None:
        self._versions[instance] += 1
        due = self._instances[instance].next_event()
        if due < math.inf:
            self._at(due, self._step, instance, self._versions[instance])

    def _step(self, now: float, instance: int, version: int) -> None:
        if version == self._versions[instance]:
            self._advance(now, instance)
            self._schedule(instance)

    def _advance(self, now: float, instance: int) -> None:
        for at, key, last in self._instances[instance].advance(now):
            row = self._answers.row_of(key)
            gateway = self.gateways[row % len(self.gateways)]
            if not last:
                self._answers.first_token(key, at)
                gateway.state.progress(key, 1, at)
                continue
            tokens = self._answers.tokens_of(key)
            gateway.state.progress(key, tokens, at)
            request = gateway.state.release(key, at)
            if request is not None and tokens > 1:
                gateway.policy.observe(instance, tokens - 1, at - request.first_at, at)
            follower = self._answers.last_token(key, at, gateway.state)
            if follower is not None:
                self._at(at, self._send, gateway, row, follower)
            elif self._answers.ended(row):
                self._unfinished -= 1
                if self._slo is not None:
                    self._slo.observe(at - self._arrival[row])

    def _poll(self, now: float) -> None:
        for instance, simulated in enumerate(self._instances):
            self._advance(now, instance)
            for key, written in simulated.written():
                row = self._answers.row_of(key)
                state = self.gateways[row % len(self.gateways)].state
                state.progress(key, written, now)
            told = Telemetry(simulated.running, simulated.waiting, simulated.kv_usage)
            for gateway in self.gateways:
                gateway.state.report(instance, told, now)
        self._at(now + TELEMETRY_S, self._poll)

    def _move_weights(self, now: float) -> None:
        assert self._slo is not None
        assert self._control is not None
        self._control.policy.weights = self._slo.move(now)
        self.outcome.slo_shares.append((now, self._slo.share))
        self._at(now + SLO_EVERY_S, self._move_weights)
