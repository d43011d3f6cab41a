"""What a router sees when its batch is routed row by row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.trsched.counting_engine import CountingEngine
from trcore import PeerRing, PendingTable
from trrouters import BaseRouter, LogitsOutput, RouterContext, RouteResult
from trrouters.route_result import Destinations
from trsched.errors import RouterFailedError
from trsched.loops.local_request import LocalRequest
from trsched.loops.request_table import RequestTable
from trsched.loops.router_guard import RouterGuard
from trsched.request import ModelSampling, SamplingParams
from trsched.shared.counters import SubserverStats
from trsched.shared.step_counters import StepCounters
from trsched.wire.messages import Admit
from trsched.wire.peers import Peers


class Ordered(BaseRouter):
    """Routes by the logits, and raises where there is a nan. Keeps what it was shown."""

    def __init__(self) -> None:
        super().__init__(RouterContext(0, 3, 4))
        self.seen: list[RouteResult] = []

    def route(self, result: RouteResult) -> Destinations:
        self.seen.append(result)
        logits: Any = result.logits_output.next_token_logits
        if (logits != logits).any():  # nan
            raise ValueError("nan")
        destinations: Destinations = logits.argmax(-1)
        return destinations


def guard(router: BaseRouter, stats: SubserverStats) -> RouterGuard:
    rings = [PeerRing.heap(1 << 16) for _ in range(3)]
    peers = Peers(0, rings, PeerRing.heap(1 << 16))
    table = RequestTable(4, 3, CountingEngine(4), stats, ModelSampling())
    return RouterGuard(0, router, table, peers, stats, forgiving=False)


def requests(count: int) -> tuple[LocalRequest, ...]:
    table = PendingTable(count, 3)
    return tuple(
        LocalRequest(Admit(rid, 0, [1], SamplingParams(seed=rid), 9, []), table)
        for rid in range(count)
    )


def tensors(kind: str) -> Any:
    if kind == "numpy":
        return np.array
    return pytest.importorskip("torch").tensor


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_rows_alone_are_the_rows_of_the_batch(kind: str) -> None:
    make = tensors(kind)
    router, stats = Ordered(), SubserverStats("test", StepCounters(3, 8))
    logits = make([[0.0, 1.0, 0.0], [float("nan"), 0.0, 0.0], [0.0, 0.0, 1.0]])
    ids, embeddings = make([7, 8, 9]), make([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    extra = make([[0.5], [1.5], [2.5]])
    output = LogitsOutput(logits, token_embeddings=embeddings, extra_logits=extra)
    rows = requests(3)
    first, second, third = guard(router, stats).route(RouteResult(rows, ids, output))
    assert (first, third) == (1, 2)
    assert isinstance(second, RouterFailedError)
    assert str(second) == "ValueError: nan"
    assert stats.router_errors == 2
    for i, shown in enumerate(router.seen[1:]):
        assert list(shown.requests) == [rows[i]]
        assert type(shown.next_token_ids) is type(ids)
        assert shown.next_token_ids.tolist() == [7 + i]
        seen: Any = shown.logits_output
        assert seen.next_token_logits.shape == (1, 3)
        assert seen.token_embeddings.tolist() == [embeddings[i].tolist()]
        assert seen.extra_logits.tolist() == [extra[i].tolist()]
        assert seen.hidden_states is None


def test_a_sound_batch_is_routed_once() -> None:
    router, stats = Ordered(), SubserverStats("test", StepCounters(3, 8))
    logits: Any = np.eye(2)
    result = RouteResult(requests(2), np.array([1, 2]), LogitsOutput(logits))
    assert list(guard(router, stats).route(result)) == [0, 1]
    assert len(router.seen) == 1
    assert stats.router_errors == 0


class OnDevice:
    """Destinations as a GPU holds them: numpy cannot read them there."""

    def __array__(self, *_: object) -> None:
        raise TypeError("not on this device")

    def cpu(self) -> Any:
        return np.array([2, 0])


def test_destinations_may_be_where_the_outputs_are() -> None:
    router, stats = Ordered(), SubserverStats("test", StepCounters(3, 8))
    router.route = lambda result: OnDevice()  # type: ignore[assignment,method-assign,return-value]
    result = RouteResult(requests(2), np.array([1, 2]), LogitsOutput())
    assert list(guard(router, stats).route(result)) == [2, 0]
    assert stats.router_errors == 0
