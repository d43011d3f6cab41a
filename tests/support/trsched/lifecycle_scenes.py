"""Groups held still with a request in each of the states it can be in, and what its end must be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

from tests.support.trsched.gate_engine import Gate
from tests.support.trsched.groups import profile_config, request
from tests.support.waiting import until
from trrouters.draws import ROUTING_STREAM, uniform
from trsched.group import Group
from trsched.loops.stream import Stream
from trsched.plan.config import GroupConfig
from trsched.request import FinalEvent, TokenEvent


@dataclass
class Scene:
    """A group held still, with `victim` in the state under test and `others` around it."""

    group: Group
    engines: list[Gate]
    victim: Stream
    others: list[Stream]


OpenGroup = Callable[[GroupConfig], tuple[Group, list[Gate]]]

ALWAYS = {"p": 1.0}  # every token of model 0 is dropped and made by model 1 instead


def queued(open_group: OpenGroup, timeout_s: float | None) -> Scene:
    """Waiting for admission: the group is full."""
    group, engines = open_group(profile_config("bernoulli", ALWAYS))
    engines[0].hold()
    others = [group.submit(request(seed)) for seed in range(1, group.plan.max_active + 1)]
    victim = group.submit(request(9, timeout_s=timeout_s))
    until(lambda: group.status().queued == 1)
    return Scene(group, engines, victim, others)


def running(open_group: OpenGroup, timeout_s: float | None) -> Scene:
    """In the batch that steps."""
    group, engines = open_group(profile_config("bernoulli", ALWAYS))
    engines[0].hold()
    victim = group.submit(request(1, timeout_s=timeout_s))
    engines[0].wait_for(lambda engine: engine.entered == 1)
    return Scene(group, engines, victim, [])


def in_client_ring(open_group: OpenGroup, timeout_s: float | None) -> Scene:
    """Admitted, in the inbox of an entry that is busy with another request."""
    group, engines = open_group(profile_config("bernoulli", ALWAYS))
    engines[0].hold()
    first = group.submit(request(1))
    engines[0].wait_for(lambda engine: engine.entered == 1)
    victim = group.submit(request(2, timeout_s=timeout_s))
    return Scene(group, engines, victim, [first])


def in_peer_ring(open_group: OpenGroup, timeout_s: float | None) -> Scene:
    """Handed over, in the inbox of a peer that is busy with another request."""
    group, engines = open_group(profile_config("bernoulli", ALWAYS))
    engines[1].hold()
    first = group.submit(request(1))
    engines[1].wait_for(lambda engine: engine.entered == 1)
    victim = group.submit(request(2, timeout_s=timeout_s))
    engines[0].wait_for(lambda engine: engine.entered == 2)
    return Scene(group, engines, victim, [first])


def pending(open_group: OpenGroup, timeout_s: float | None) -> Scene:
    """Pending at its entry while the peer steps it."""
    group, engines = open_group(profile_config("bernoulli", ALWAYS))
    engines[1].hold()
    victim = group.submit(request(1, timeout_s=timeout_s))
    engines[1].wait_for(lambda engine: engine.entered == 1)
    return Scene(group, engines, victim, [])


RATE = 0.05
LONG = 40


def in_delayed_buffer(open_group: OpenGroup, timeout_s: float | None) -> Scene:
    """Waits at the peer for a second request, while the only other one stays at model 0."""
    stays = next(seed for seed in count() if min(draws(seed)) >= RATE)
    leaves = next(seed for seed in count() if draws(seed)[0] < RATE)
    group, engines = open_group(profile_config("bernoulli", {"p": RATE}, thresholds=[1, 2]))
    before = group.status().subservers[0].handoffs_sent
    engines[0].hold()
    first = group.submit(request(stays, LONG))
    engines[0].wait_for(lambda engine: engine.entered == 1)
    victim = group.submit(request(leaves, timeout_s=timeout_s))
    until(lambda: group.status().active == 2)  # else `first` may end before the victim has begun
    while group.status().subservers[0].handoffs_sent == before:
        step_once(engines[0])
    until(lambda: group.status().subservers[1].waiting == 1)
    assert engines[1].entered == 0
    return Scene(group, engines, victim, [first])


def step_once(engine: Gate) -> None:
    entered = engine.entered
    engine.let_go(steps=1)
    engine.wait_for(lambda engine: engine.entered > entered)


def draws(seed: int) -> list[float]:
    return [uniform(seed, position, ROUTING_STREAM) for position in range(5, 5 + LONG)]


STATES = [queued, running, in_client_ring, in_peer_ring, pending, in_delayed_buffer]


def assert_one_final(stream: Stream, reasons: set[str]) -> FinalEvent:
    tokens, final = stream.result()
    assert final.reason in reasons, final
    assert [token.position for token in tokens] == list(range(len(tokens)))
    assert all(isinstance(token, TokenEvent) for token in tokens)
    assert stream.drained()
    return final


def assert_clean(scene: Scene) -> None:
    """The others end as they should; then nothing is left anywhere."""
    for engine in scene.engines:
        engine.let_go()
    for other in scene.others:
        assert_one_final(other, {"length"})
    for engine in scene.engines:
        engine.wait_for(lambda engine: engine.used == 0)
    status = scene.group.status()
    assert (status.active, status.queued) == (0, 0)
    # A new request on the same slots still works.
    assert_one_final(scene.group.submit(request(9)), {"length"})
