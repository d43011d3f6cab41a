"""A router is third-party code: whatever it does wrong ends its request, never the server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from packages.trsched.tests.gate_engine import GateEngine
from packages.trsched.tests.groups import profile_config, request
from trrouters import PeerReq, RouteResult
from trrouters.bernoulli import Bernoulli
from trrouters.route_result import Destinations
from trrouters.routed_request import RoutedRequest
from trsched.check import check_group
from trsched.config import ProfileModel
from trsched.group import Group

BAD_SEED = 13


class Misbehaving(Bernoulli):
    """Hands every token over, and does one thing wrong with requests of BAD_SEED."""

    wrong: dict[str, Callable[..., Any]] = {}  # noqa: RUF012 - one per test
    bad_rids: set[int] = set()  # noqa: RUF012

    def entry(self, seed: int) -> int:
        if seed == BAD_SEED and "entry" in self.wrong:
            return int(self.wrong["entry"]())
        return super().entry(seed)

    def route(self, result: RouteResult) -> Destinations:
        given = super().route(result)
        if "route" in self.wrong and any(req.seed == BAD_SEED for req in result.requests):
            wrong: Destinations = self.wrong["route"](given)
            return wrong
        return given

    def send(self, req: RoutedRequest) -> PeerReq:
        message = super().send(req)
        if req.seed == BAD_SEED:
            self.bad_rids.add(req.rid)
            if "send" in self.wrong:
                sent: PeerReq = self.wrong["send"](message)
                return sent
        return message

    def receive(self, peer_req: PeerReq) -> Sequence[int]:
        if peer_req.rid in self.bad_rids and "receive" in self.wrong:
            taken: Sequence[int] = self.wrong["receive"](peer_req)
            return taken
        return super().receive(peer_req)


def fail(*_: object) -> Any:
    raise ZeroDivisionError("oops")


def changed(**fields: Any) -> Callable[[PeerReq], PeerReq]:
    def change(message: PeerReq) -> PeerReq:
        kept = {name: getattr(message, name) for name in message.__struct_fields__}
        return PeerReq(**{**kept, **fields})

    return change


WRONG = {
    "entry raises": ("entry", fail),
    "entry names no model": ("entry", lambda: 2),
    "route raises": ("route", fail),
    "route returns nothing": ("route", lambda _: None),
    "route returns too many": ("route", lambda given: np.append(given, 0)),
    "route returns rates": ("route", lambda given: given * 0.5),
    "route names no peer": ("route", lambda given: given + 1),
    "route names a negative peer": ("route", lambda given: given - 2),
    "send raises": ("send", fail),
    "send returns nothing": ("send", lambda _: None),
    "send is lost": ("send", changed(loc=3)),
    "send knows the future": ("send", changed(loc=99)),
    "send takes another's name": ("send", changed(rid=1 << 40)),
    "send finishes early": ("send", changed(finished=True)),
    "send skips tokens": ("send", changed(token_ids=[])),
    "send has no tokens": ("send", changed(token_ids=["a"] * 9)),
    "send has odd extras": ("send", changed(extras={"a": object()})),
    "send has too much": ("send", changed(extras={"a": np.zeros(1 << 20, np.float32)})),
    "receive raises": ("receive", fail),
    "receive returns nothing": ("receive", lambda _: None),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG.keys())
def test_its_request_ends_and_the_server_lives(
    wrong: tuple[str, Callable[..., Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Misbehaving, "wrong", dict([wrong]))
    monkeypatch.setattr(Misbehaving, "bad_rids", set())
    config = profile_config("bernoulli")
    plan = check_group(config)
    engines = []
    for i, model in enumerate(config.models):
        assert isinstance(model, ProfileModel)
        engines.append(GateEngine(model, i, plan.kv.sequences, plan.kv.context))
    # Model 1 keeps a request for 2 tokens: one of them stays, one is handed back.
    routers = tuple(Misbehaving(r.context, p=1.0, tokens_per_call=2) for r in plan.routers)
    group = Group(replace(plan, routers=routers), engines)
    try:
        _, final = group.submit(request(BAD_SEED)).result()
        assert final.reason == "error"
        assert final.error is not None
        assert "router failed" in final.error or "hand-off" in final.error
        for engine in engines:
            engine.wait_for(lambda engine: engine.used == 0)
        assert group.submit(request(1)).result()[1].reason == "length"
        assert all(subserver.alive for subserver in group.status().subservers)
    finally:
        group.close()
