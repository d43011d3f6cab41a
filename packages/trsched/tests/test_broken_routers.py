"""A router is third-party code: what it does wrong stays with its request, never the server's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from tests.support.trsched.gate_engine import GateEngine
from tests.support.trsched.groups import profile_config, request
from tests.support.waiting import until
from trrouters import PeerReq, RouteResult
from trrouters.algorithms.bernoulli import Bernoulli
from trrouters.route_result import Destinations
from trrouters.routed_request import RoutedRequest
from trsched.engines.profile import profile_token
from trsched.group import Group
from trsched.hosts.thread_host import ThreadHost
from trsched.plan.check import check_group
from trsched.plan.config import ProfileModel
from trsched.request import TokenEvent

BAD_SEED = 13
TOKENS = 8
PROMPT = len(b"hello")


class Misbehaving(Bernoulli):
    """Does one thing wrong with requests of BAD_SEED."""

    wrong: dict[str, Callable[..., Any]] = {}  # noqa: RUF012 - one per test
    bad_rids: set[int] = set()  # noqa: RUF012
    largest_bad_batch = 0

    def entry(self, seed: int) -> int:
        if seed == BAD_SEED and "entry" in self.wrong:
            entry: int = self.wrong["entry"]()
            return entry
        return super().entry(seed)

    def route(self, result: RouteResult) -> Destinations:
        given = super().route(result)
        if any(req.seed == BAD_SEED for req in result.requests):
            Misbehaving.largest_bad_batch = max(self.largest_bad_batch, len(result.requests))
            if "route" in self.wrong:
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


class MuteError(Exception):
    """An exception that fails itself."""

    def __str__(self) -> str:
        raise ZeroDivisionError


def fail(*_: object) -> Any:
    raise ZeroDivisionError("oops")


def raising(error: BaseException) -> Callable[..., Any]:
    def fail(*_: object) -> Any:
        raise error

    return fail


def changed(**fields: Any) -> Callable[[PeerReq], PeerReq]:
    def change(message: PeerReq) -> PeerReq:
        kept = {name: getattr(message, name) for name in message.__struct_fields__}
        return PeerReq(**{**kept, **fields})

    return change


def other_tokens(message: PeerReq) -> PeerReq:
    """Right in number, so that only the tokens themselves tell."""
    if not message.token_ids:
        return changed(token_ids=[1], loc=message.loc + 1)(message)
    return changed(token_ids=[token ^ 1 for token in message.token_ids])(message)


def one_more_in_place(peer_req: PeerReq) -> Sequence[int]:
    assert isinstance(peer_req.token_ids, list)
    peer_req.token_ids.append(65)
    return peer_req.token_ids


WRONG = {
    "entry raises": ("entry", fail),
    "entry exits": ("entry", raising(SystemExit(3))),
    "entry names no model": ("entry", lambda: 2),
    "entry names half a model": ("entry", lambda: 0.5),
    "route raises": ("route", fail),
    "route raises what cannot be shown": ("route", raising(MuteError())),
    "route raises what is no text": ("route", raising(ValueError("\udcff"))),
    "route raises a novel": ("route", raising(ValueError("x" * (1 << 21)))),
    "route raises lines": ("route", raising(ValueError("one\n\x1b[2Jtwo"))),
    "route exits": ("route", raising(SystemExit(3))),
    "route is interrupted": ("route", raising(KeyboardInterrupt())),
    "route returns nothing": ("route", lambda _: None),
    "route returns too many": ("route", lambda given: np.append(given, 0)),
    "route returns rates": ("route", lambda given: given * 0.5),
    "route names no peer": ("route", lambda given: given + 2),
    "route names a negative peer": ("route", lambda given: given - 2),
    "send raises": ("send", fail),
    "send exits": ("send", raising(SystemExit())),
    "send returns nothing": ("send", lambda _: None),
    "send is lost": ("send", changed(loc=3)),
    "send knows the future": ("send", changed(loc=99)),
    "send takes another's name": ("send", changed(rid=1 << 40)),
    "send finishes early": ("send", changed(finished=True)),
    "send skips tokens": ("send", changed(token_ids=[])),
    "send has no tokens": ("send", changed(token_ids=["a"] * 9)),
    "send has other tokens": ("send", other_tokens),
    "send has odd extras": ("send", changed(extras={"a": object()})),
    "send has too much": ("send", changed(extras={"a": np.zeros(1 << 20, np.float32)})),
    "receive raises": ("receive", fail),
    "receive exits": ("receive", raising(SystemExit())),
    "receive returns nothing": ("receive", lambda _: None),
    "receive takes too few": ("receive", lambda peer_req: peer_req.token_ids[:-1]),
    "receive takes too many": ("receive", lambda peer_req: [*peer_req.token_ids, 65]),
    "receive takes too many in place": ("receive", one_more_in_place),
    "receive takes others": ("receive", lambda peer_req: [t ^ 1 for t in peer_req.token_ids]),
}
EVERY_WRONG = pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG.keys())


@dataclass
class Scene:
    group: Group
    engines: list[GateEngine]
    lines: list[str] = field(default_factory=list)

    def run(self, seed: int) -> tuple[list[TokenEvent], Any]:
        return self.group.submit(request(seed, TOKENS)).result()

    def assert_sound(self) -> None:
        """Nothing is left of any request, and all models live."""
        for engine in self.engines:
            engine.wait_for(lambda engine: engine.used == 0)
        assert all(subserver.alive for subserver in self.group.status().subservers)

    def router_errors(self) -> int:
        return sum(subserver.router_errors for subserver in self.group.status().subservers)


@contextmanager
def scene(
    monkeypatch: pytest.MonkeyPatch,
    wrong: tuple[str, Callable[..., Any]] | None,
    mode: str = "fail",
    *,
    p: float = 1.0,
    thresholds: Sequence[int] = (1, 1),
) -> Iterator[Scene]:
    monkeypatch.setattr(Misbehaving, "wrong", dict([wrong] if wrong else []))
    monkeypatch.setattr(Misbehaving, "bad_rids", set())
    monkeypatch.setattr(Misbehaving, "largest_bad_batch", 0)
    config = profile_config("bernoulli", thresholds=thresholds, on_router_error=mode)
    plan = check_group(config)
    engines = []
    for i, model in enumerate(config.models):
        assert isinstance(model, ProfileModel)
        engines.append(GateEngine(model, i, plan.kv.sequences, plan.kv.context))
    # Model 1 keeps a request for 2 tokens: one of them stays, one is handed back.
    routers = tuple(Misbehaving(r.context, p=p, tokens_per_call=2) for r in plan.routers)
    lines: list[str] = []
    plan = replace(plan, routers=routers)
    group = Group(plan, ThreadHost(plan, engines), report=lines.append)
    try:
        yield Scene(group, engines, lines)
    finally:
        group.close()


def made_by(model: int, seed: int, position: int) -> TokenEvent:
    """What that model makes at that output position, whoever made those before."""
    config = profile_config("bernoulli").models[model]
    assert isinstance(config, ProfileModel)
    token = profile_token(config, model, seed, PROMPT + position)
    return TokenEvent(position, token, model)


def alone(model: int, seed: int) -> list[TokenEvent]:
    return [made_by(model, seed, position) for position in range(TOKENS)]


@EVERY_WRONG
def test_its_request_ends_and_the_server_lives(
    wrong: tuple[str, Callable[..., Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    with scene(monkeypatch, wrong) as here:
        _, final = here.run(BAD_SEED)
        assert (final.reason, final.degraded) == ("error", False)
        assert final.error is not None
        assert final.error.startswith("router failed: ")
        assert len(final.error) < 400
        assert final.error.isprintable()
        here.assert_sound()
        assert here.run(1)[1].reason == "length"
        assert here.router_errors() == (wrong[0] != "entry")
        here.assert_sound()


@EVERY_WRONG
def test_its_request_goes_on_where_that_is_wanted(
    wrong: tuple[str, Callable[..., Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    with scene(monkeypatch, wrong, "continue") as here:
        tokens, final = here.run(BAD_SEED)
        if wrong[0] == "entry":  # no model has it: there is nowhere to go on
            assert final.reason == "error"
            return
        assert (final.reason, final.error, final.degraded) == ("length", None, True)
        expected = [made_by(token.model, BAD_SEED, token.position) for token in tokens]
        assert tokens == expected
        assert [token.position for token in tokens] == list(range(TOKENS))
        assert here.router_errors() > 0
        _, final = here.run(1)
        assert (final.reason, final.degraded) == ("length", False)
        here.assert_sound()


@pytest.mark.parametrize("step", ["route", "send"])
def test_without_a_router_the_entry_writes_it_all(
    step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with scene(monkeypatch, (step, fail), "continue") as here:
        tokens, final = here.run(BAD_SEED)
        assert tokens == alone(0, BAD_SEED)
        assert final.handoffs == 0
        assert here.router_errors() == TOKENS


def test_what_receive_fails_on_is_taken_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    with scene(monkeypatch, None) as here:
        undisturbed, _ = here.run(BAD_SEED)
    assert {token.model for token in undisturbed} == {1}, "model 0's tokens are all replaced"
    with scene(monkeypatch, ("receive", fail), "continue") as here:
        tokens, final = here.run(BAD_SEED)
        assert tokens == undisturbed
        assert final.degraded


def test_each_error_is_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with scene(monkeypatch, ("route", fail), "continue") as here:
        here.run(BAD_SEED)
        here.run(BAD_SEED)
        assert here.lines == ["the router of model 0 m0 failed: ZeroDivisionError: oops"]


def test_only_so_many_errors_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail_anew(_: object) -> Any:
        raise ValueError(here.router_errors())

    with scene(monkeypatch, ("route", fail_anew), "continue") as here:
        for _ in range(5):
            here.run(BAD_SEED)
        assert here.router_errors() == 5 * TOKENS
        assert len(here.lines) == len(set(here.lines)) == 16


BAD_ROUTES = {name: wrong for name, wrong in WRONG.items() if wrong[0] == "route"}


@pytest.mark.parametrize("mode", ["fail", "continue"])
@pytest.mark.parametrize("wrong", BAD_ROUTES.values(), ids=BAD_ROUTES.keys())
def test_others_of_its_batch_are_not_touched(
    wrong: tuple[str, Callable[..., Any]], mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch fails as a whole; the good request's tokens, models and hand-offs are its own."""
    good_seed = 4
    with scene(monkeypatch, None, p=0.5) as here:
        undisturbed, _ = here.run(good_seed)
    assert {token.model for token in undisturbed} == {0, 1}, "the seed decides nothing"
    # With two active, model 0 waits for both: the bad one's first token is made beside the good's.
    with scene(monkeypatch, wrong, mode, p=0.5, thresholds=(2, 1)) as here:
        here.engines[0].hold()
        good = here.group.submit(request(good_seed, TOKENS))
        here.engines[0].wait_for(lambda engine: engine.entered == 1)
        bad = here.group.submit(request(BAD_SEED, TOKENS))
        until(lambda: here.group.status().active == 2)
        here.engines[0].let_go()
        tokens, final = good.result()
        assert tokens == undisturbed
        assert (final.reason, final.degraded) == ("length", False)
        tokens, final = bad.result()
        assert Misbehaving.largest_bad_batch == 2
        if mode == "fail":
            assert (final.reason, tokens) == ("error", [])
        else:
            assert (final.reason, final.degraded) == ("length", True)
            assert tokens == alone(0, BAD_SEED)
        here.assert_sound()


def test_a_batch_that_fails_as_a_batch_alone_costs_nobody_anything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def only_alone(given: Any) -> Any:
        return given if len(given) == 1 else fail()

    with scene(monkeypatch, None, p=0.5) as here:
        undisturbed = [here.run(seed)[0] for seed in (4, BAD_SEED)]
    with scene(monkeypatch, ("route", only_alone), p=0.5, thresholds=(2, 1)) as here:
        here.engines[0].hold()
        streams = [here.group.submit(request(4, TOKENS))]
        here.engines[0].wait_for(lambda engine: engine.entered == 1)
        streams.append(here.group.submit(request(BAD_SEED, TOKENS)))
        until(lambda: here.group.status().active == 2)
        here.engines[0].let_go()
        results = [stream.result() for stream in streams]
        assert [tokens for tokens, _ in results] == undisturbed
        assert [final.reason for _, final in results] == ["length", "length"]
        assert Misbehaving.largest_bad_batch == 2
        assert here.router_errors() > 0
