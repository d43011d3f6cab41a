"""The runs of `benchmarks.routing` on one pair of models: which systems, under which loads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.load.loops import LoadResult, closed_loop, open_loop
from benchmarks.load.system import System, TimedResponse, WorkItem
from benchmarks.load.workload import WORKLOADS, context_needed, items
from benchmarks.report.load_figures import LoadFigures, Setting
from benchmarks.report.names import (
    LLM_ONLY,
    MAIN_ALGORITHM,
    MAIN_CONCURRENCY,
    MAIN_WORKLOAD,
    OFFICIAL,
    OURS,
    SLM_ONLY,
    STD_SERVING,
)
from benchmarks.report.records import StepBreakdown
from benchmarks.runs.baseline_servers import routed_servers, speculative_server
from benchmarks.runs.breakdown import our_breakdown, std_breakdown, step_parts
from benchmarks.runs.measures import measure
from benchmarks.runs.pairs import Pair
from benchmarks.systems.std_serving import SingleModelServer, StdServing
from benchmarks.systems.trserve_server import trserve_server
from rbalance.simulator.arrivals import at_rate, poisson, read_trace

GROUP_SETTINGS: dict[str, dict[str, Any]] = {
    OURS: {},
    "eager": {"delayed_batching": "off"},
    "lockstep": {"execution": "lockstep"},
    "readmit": {"handoff": "readmit"},
    OFFICIAL: {"mode": "official"},
    LLM_ONLY: {"mode": "llm-only"},
    SLM_ONLY: {"mode": "slm-only"},
}
"""Systems that are our own server, by what differs in the group's configuration."""

_SEED, _WARM_UP_SEED = 7, 8
_WARM_UP_NUMBERS = 1_000_000
_LONG_ITEM = 2_000_000
_LAST_STEPS = 128
_OPEN_LOAD = 0.6
"""Of the throughput that ours had in the closed loop, in requests a second."""


@dataclass(frozen=True)
class Scope:
    """What to measure.

    scale: of all lengths.
    stretch: tokens of a response that each request is (None: whole responses).
    items_per_client: of a run.
    systems: of those that are our own server; None: all.
    """

    algorithms: Sequence[str]
    workloads: Sequence[str]
    scale: float
    stretch: int | None
    curve: Sequence[int]
    items_per_client: int
    open_loop: bool
    trace: Path | None
    systems: Sequence[str] | None = None


@dataclass
class RoutingRuns:
    """All runs on `pair`; `measured` and `steps` are what they found.

    recorded: what ours answered, by (algorithm, workload), for others to repeat.
    """

    pair: Pair
    scope: Scope
    measured: list[LoadFigures] = field(default_factory=list)
    steps: list[StepBreakdown] = field(default_factory=list)
    recorded: dict[tuple[str, str], dict[int, TimedResponse]] = field(default_factory=dict)
    _kept: dict[tuple[str, int], list[WorkItem]] = field(default_factory=dict)

    async def all(self) -> None:
        """Everything in scope."""
        for algorithm in self.scope.algorithms:
            main = algorithm == MAIN_ALGORITHM
            for system in (OURS, OFFICIAL, *(self._parts() if main else ())):
                await self._ours(system, algorithm)
        known = self.pair.algorithms
        for n_probs in sorted({known[name].n_probs for name in self.scope.algorithms}):
            await self._std_serving(
                [name for name in self.scope.algorithms if known[name].n_probs == n_probs], n_probs
            )
        for system in (LLM_ONLY, SLM_ONLY):
            await self._ours(system, "")
        if self.pair.engine == "real":
            await self._speculative()

    def _parts(self) -> list[str]:
        return ["eager", "lockstep", *(["readmit"] if self.pair.engine != "profile" else [])]

    async def _ours(self, system: str, algorithm: str) -> None:
        """A system that is our own server."""
        if self.scope.systems is not None and system not in self.scope.systems:
            return
        settings = GROUP_SETTINGS[system]
        group = self.pair.group(algorithm or MAIN_ALGORITHM, self._context, self._most, **settings)
        with trserve_server(system, group) as server:
            for workload in self._workloads(system):
                for clients in self._counts(system, algorithm, workload):
                    await self._closed(server, algorithm, workload, clients)
            if algorithm in (MAIN_ALGORITHM, "") and system in (OURS, LLM_ONLY):
                await self._open(server, algorithm)
            if algorithm == MAIN_ALGORITHM and system == OURS and self._long_enough:
                item = self._long_item()
                self.recorded[algorithm, MAIN_WORKLOAD][item.number] = await server.serve(item)
                parts = step_parts(await our_breakdown(server, item, item.max_tokens - 1))
                self.steps.append(StepBreakdown(system, self.pair.engine, parts))

    async def _std_serving(self, algorithms: Sequence[str], n_probs: tuple[int, int]) -> None:
        with routed_servers(self.pair, n_probs, self._context, self._most) as servers:
            for algorithm in algorithms:
                await self._driven(servers, algorithm)

    async def _driven(self, servers: Sequence[SingleModelServer], algorithm: str) -> None:
        def driver(workload: str, clients: int) -> StdServing:
            recorded = self.recorded[algorithm, workload]
            flow = self.pair.algorithms[algorithm].flow
            return StdServing(STD_SERVING, servers, recorded, flow, concurrency=clients)

        for workload in self._workloads(STD_SERVING):
            for clients in self._counts(STD_SERVING, algorithm, workload):
                await self._closed(driver(workload, clients), algorithm, workload, clients)
        if algorithm == MAIN_ALGORITHM:
            system = driver(MAIN_WORKLOAD, self._most)
            await self._open(system, algorithm)
            if self._long_enough:
                item = self._long_item()
                parts = step_parts(await std_breakdown(system, item, item.max_tokens - 1))
                self.steps.append(StepBreakdown(STD_SERVING, self.pair.engine, parts))

    async def _speculative(self) -> None:
        with speculative_server(self.pair, self._context, self._most) as server:
            for workload in self._workloads("speculative"):
                for clients in self._counts("speculative", "", workload):
                    await self._closed(server, "", workload, clients)

    async def _closed(self, system: System, algorithm: str, workload: str, clients: int) -> None:
        """A closed loop, after a warm-up of one request for each client."""
        label = f"{self.pair.engine} {system.name} {algorithm} {workload} {clients}"
        warm_up = await closed_loop(system, self._warm_up(workload)[:clients], clients)
        work = self._items(workload)[: clients * self.scope.items_per_client]
        run = await closed_loop(system, work, clients, label=label)
        if system.name == OURS:  # what others are to repeat; the same whatever the load
            known = self.recorded.setdefault((algorithm, workload), {})
            for served in (*warm_up.served, *run.served):
                known[served.item.number] = served.outcome
        self._keep(run, system, algorithm, workload, concurrency=clients)

    async def _open(self, system: System, algorithm: str) -> None:
        """An open loop at a rate that ours can keep up with, the same for every system."""
        if not self.scope.open_loop or MAIN_WORKLOAD not in self.scope.workloads:
            return
        ours = next(
            each
            for each in self.measured
            if each.setting.system == OURS
            and each.setting.workload == MAIN_WORKLOAD
            and each.setting.concurrency == MAIN_CONCURRENCY
        )
        rate = _OPEN_LOAD * ours.throughput * ours.requests / ours.tokens
        work = self._items(MAIN_WORKLOAD)
        loads = {"poisson": poisson(rate, len(work), _SEED).tolist()}
        if self.scope.trace is not None:
            loads[self.scope.trace.name] = at_rate(
                read_trace(self.scope.trace, len(work)).at, rate
            ).tolist()
        for arrivals, times in loads.items():
            label = f"{self.pair.engine} {system.name} {arrivals}"
            warm_up = self._warm_up(MAIN_WORKLOAD)[:1]
            run = await open_loop(system, work, times, warm_up=warm_up, label=label)
            self._keep(run, system, algorithm, MAIN_WORKLOAD, rate=rate, arrivals=arrivals)

    def _keep(
        self, run: LoadResult, system: System, algorithm: str, workload: str, **load: Any
    ) -> None:
        setting = Setting(
            system=system.name,
            algorithm=algorithm,
            workload=workload,
            engine=self.pair.engine,
            scale=self.scope.scale,
            stretch=self.scope.stretch,
            **load,
        )
        self.measured.append(measure(run, setting, system.configuration))

    def _workloads(self, system: str) -> Sequence[str]:
        """Parts of ours are switched off on the main workload only."""
        if system in self._parts():
            return [name for name in self.scope.workloads if name == MAIN_WORKLOAD]
        return self.scope.workloads

    def _counts(self, system: str, algorithm: str, workload: str) -> list[int]:
        """Numbers of clients: the curve, on one workload, for R2R and for what routes nothing.

        On SGLang for every algorithm.
        """
        curved = workload == MAIN_WORKLOAD and (
            algorithm in (MAIN_ALGORITHM, "") or self.pair.engine == "sglang"
        )
        if system in self._parts() or not curved:
            return [MAIN_CONCURRENCY]
        return sorted({MAIN_CONCURRENCY, *self.scope.curve})

    def _items(self, workload: str) -> list[WorkItem]:
        """The same for every system; runs of fewer clients take the first of them."""
        return self._made(workload, self._most * self.scope.items_per_client, _SEED)

    def _warm_up(self, workload: str) -> list[WorkItem]:
        made = self._made(workload, self._most, _WARM_UP_SEED)
        return [replace(item, number=_WARM_UP_NUMBERS + item.number) for item in made]

    def _made(self, workload: str, count: int, seed: int) -> list[WorkItem]:
        """Made once: a tokenizer takes its time."""
        if (workload, seed) not in self._kept:
            pair, scope = self.pair, self.scope
            self._kept[workload, seed] = items(
                WORKLOADS[workload],
                count,
                scope.scale,
                seed,
                pair.encode,
                pair.frame,
                scope.stretch,
            )
        return self._kept[workload, seed]

    def _long_item(self) -> WorkItem:
        """The end of a response of 2048 tokens, or as much as the context holds.

        Of real models, which end a response where they like, the longest that was recorded.
        """
        if self.pair.engine != "profile":
            recorded = self.recorded[MAIN_ALGORITHM, MAIN_WORKLOAD]
            known = [item for item in self._items(MAIN_WORKLOAD) if item.number in recorded]
            return max(known, key=lambda item: len(recorded[item.number].tokens))
        output = _LAST_STEPS
        prompt = min(2048, self._context) - output
        body = self._items(MAIN_WORKLOAD)[0].prompt_ids
        repeated = (body * (prompt // len(body) + 1))[:prompt]
        return WorkItem(_LONG_ITEM, repeated, output, seed=_SEED)

    @property
    def _long_enough(self) -> bool:
        """Whether the context holds enough steps for a mean of them."""
        return self._context >= 2 * _LAST_STEPS

    @property
    def _most(self) -> int:
        return max(MAIN_CONCURRENCY, *self.scope.curve)

    @property
    def _context(self) -> int:
        needed = (context_needed(WORKLOADS[w], self.scope.scale) for w in self.scope.workloads)
        return max(64, *needed)
