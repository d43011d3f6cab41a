"""What a hand-off does to the request that it is for, and to one that it cannot be for."""

from __future__ import annotations

import pytest

from tests.support.trsched.counting_engine import CountingEngine
from trcore import PeerRing, State
from trrouters import BaseRouter, PeerReq, RouterContext
from trsched.loops.inter_model_loop import InterModelLoop
from trsched.loops.request_table import RequestTable
from trsched.loops.router_guard import RouterGuard
from trsched.request import ModelSampling, SamplingParams
from trsched.shared.counters import SubserverStats
from trsched.shared.step_counters import StepCounters
from trsched.wire.codec import GROUP, HandOff, decode_report
from trsched.wire.messages import Admit, Report, RequestFailed
from trsched.wire.peers import Peers

PROMPT = [1, 2, 3]


class Scene:
    """Model 0 with one request, pending after two output tokens, that model 1 has."""

    def __init__(self) -> None:
        self.reports = PeerRing.heap(1 << 12)
        peers = Peers(0, [PeerRing.heap(1 << 12) for _ in range(2)], self.reports)
        self.stats = SubserverStats("test", StepCounters(2, 4))
        self.table = RequestTable(4, 2, CountingEngine(4), self.stats, ModelSampling())
        router = BaseRouter(RouterContext(0, 2, 100))
        guard = RouterGuard(0, router, self.table, peers, self.stats, forgiving=False)
        self.loop = InterModelLoop(0, guard, self.table, peers, self.stats)
        self.loop.handle(Admit(0, 1, PROMPT, SamplingParams(), 9, []))
        self.receive(GROUP, [*PROMPT, 10, 11])
        request = self.table.get(0)
        assert request is not None
        self.request = request
        self.table.park(request)

    def receive(self, sender: int, tokens: list[int]) -> None:
        self.loop.handle(HandOff(PeerReq(0, tokens, len(tokens)), sender, 0))

    def reported(self) -> list[Report]:
        return [decode_report(record) for record in self.reports.drain()]


@pytest.mark.parametrize("sender", [1, GROUP])
@pytest.mark.parametrize("more", [[], [12], [12, 13]])
def test_it_brings_what_is_not_known_here(sender: int, more: list[int]) -> None:
    scene = Scene()
    scene.receive(sender, [*PROMPT, 10, 11, *more])
    assert scene.request.output_ids == [10, 11, *more]
    assert list(scene.table.ready) == [scene.request]
    assert scene.reported() == []


def test_the_group_may_know_less_than_the_model() -> None:
    """A model was killed, and what was handed over to it is still to be reported from here."""
    scene = Scene()
    scene.receive(GROUP, [*PROMPT, 10])
    assert scene.request.output_ids == [10, 11]
    assert list(scene.table.ready) == [scene.request]
    assert scene.reported() == []


def test_a_peer_may_not() -> None:
    scene = Scene()
    scene.receive(1, [*PROMPT, 10])
    (failed,) = scene.reported()
    assert failed == RequestFailed(0, "hand-off reaches 4 tokens, 5 are known here")
    assert scene.table.get(0) is None


def test_one_that_runs_here_goes_on_as_it_is() -> None:
    scene = Scene()
    scene.table.resume(scene.request)
    scene.receive(GROUP, [*PROMPT, 10, 11, 12])
    assert scene.request.output_ids == [10, 11]
    assert scene.table._states.state(0) is State.RUNNING
    assert scene.stats.stale_messages == 1
