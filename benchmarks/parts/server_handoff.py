"""The hand-off inside the server: from a routing decision to the peer's next batch, the peer idle.

Two profile engines and a router that always hands over, one request at a time: whatever lies
between the end of `route` on one model and the start of the step on the other is ours (send,
encode, ring, wake-up, decode, receive, batch), with the client loop's work on the same interpreter.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from trrouters import RouterContext, RouteResult
from trrouters.algorithms.bernoulli import Bernoulli
from trrouters.route_result import Destinations
from trsched.engines.base import StepResult
from trsched.engines.profile import ProfileEngine
from trsched.group import Group
from trsched.hosts.thread_host import ThreadHost
from trsched.plan.check import check_group
from trsched.plan.config import GroupConfig, ProfileModel, group_config
from trsched.request import GenerateRequest, SamplingParams

STEP_MS = 1.0
TOKENS = 200


class _Moments:
    """(time in ns, "route" or "step", model), in order."""

    def __init__(self) -> None:
        self.list: list[tuple[int, str, int]] = []

    def note(self, what: str, model: int) -> None:
        self.list.append((time.perf_counter_ns(), what, model))


class _TimedEngine(ProfileEngine):
    moments: _Moments
    index: int

    def step(self, seqs: Sequence[int]) -> StepResult:
        self.moments.note("step", self.index)
        return super().step(seqs)


class _TimedRouter(Bernoulli):
    moments: _Moments

    def route(self, result: RouteResult) -> Destinations:
        destinations = super().route(result)
        self.moments.note("route", self.index)
        return destinations


def _config(*, processes: bool = False) -> GroupConfig:
    return group_config(
        {
            "name": "handoff",
            "models": [
                {"engine": "profile", "name": name, "step_ms": [STEP_MS]} for name in ("s", "l")
            ],
            "router": {"name": "bernoulli", "settings": {"p": 1.0}},
            "context": 512,
            "kv_memory": "16MiB",
            "max_active": 4,
            "processes": processes,
            "overlap": True,  # the peer need not wait for the sender's turn to end
        }
    )


def _ask(group: Group, seed: int, tokens: int = TOKENS) -> None:
    sampling = SamplingParams(seed=seed)
    group.submit(GenerateRequest("", [1, 2, 3], tokens, sampling)).result()


def handoff_latencies_us(handoffs: int) -> list[float]:
    """Latencies of at least `handoffs` hand-offs in µs, after a warm-up of a tenth."""
    config = _config()
    moments = _Moments()
    routers = [_TimedRouter(RouterContext(index, 2, 257), p=1.0) for index in range(2)]
    engines = []
    for index, model in enumerate(config.models):
        assert isinstance(model, ProfileModel)
        engine = _TimedEngine(model, "bytes", index=index, sequences=4, context=512)
        engine.moments, engine.index = moments, index
        routers[index].moments = moments
        engines.append(engine)
    plan = replace(check_group(config), routers=tuple(routers))
    group = Group(plan, ThreadHost(plan, engines))
    try:
        while len(moments.list) < 2.2 * handoffs:
            _ask(group, len(moments.list))
    finally:
        group.close()
    trips = [
        (after[0] - before[0]) / 1000
        for before, after in pairwise(moments.list)
        if before[1] == "route" and after[1] == "step" and before[2] != after[2]
    ]
    return trips[len(trips) // 10 :]


def counted_latencies_us(handoffs: int, *, processes: bool) -> list[float]:
    """Latencies of single hand-offs in µs, after a warm-up of a tenth, as the server counts them.

    From the routing decision to the choice of the peer's next batch; what `handoff_seconds` has
    grown by after a request of one token, which is also to be had where models are processes.
    """
    group = Group.open(_config(processes=processes))
    trips = []
    try:
        total = 0.0
        for seed in range(handoffs + handoffs // 10):
            _ask(group, seed, tokens=1)
            before, total = total, group.status().subservers[1].handoff_seconds.total
            trips.append((total - before) * 1e6)
    finally:
        group.close()
    return trips[-handoffs:]
