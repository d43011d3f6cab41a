"""Requests that a group refuses, each naming what is at fault; and how it drains."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import suppress

import msgspec
import numpy as np
import pytest

from tests.support.trsched.gate_engine import GateEngine
from tests.support.trsched.groups import gate_group, profile_config, request
from tests.support.waiting import until
from trsched.errors import (
    GroupUnavailableError,
    QueueFullError,
    RequestError,
    RequestTooLongError,
)
from trsched.group import Group
from trsched.request import FinalEvent, GenerateRequest, SamplingParams

CONTEXT = 64


@pytest.fixture(scope="module")
def group() -> Iterator[Group]:
    opened = Group.open(profile_config("bernoulli", {"p": 0.5}, context=CONTEXT))
    yield opened
    opened.close()


def good(**fields: object) -> GenerateRequest:
    return msgspec.structs.replace(request(max_tokens=4), **fields)


@pytest.mark.parametrize(
    ("bad", "param"),
    [
        (good(prompt_ids=[]), "prompt"),
        (good(prompt_ids=[1, -1]), "prompt"),
        (good(prompt_ids=[257]), "prompt"),
        (good(stop_token_ids=frozenset({257})), "stop_token_ids"),
        (good(stop_token_ids=frozenset({-1})), "stop_token_ids"),
        (good(stop_token_ids=frozenset({1 << 80})), "stop_token_ids"),
        (good(max_tokens=0), "max_tokens"),
        (good(timeout_s=0.0), "timeout"),
        (good(timeout_s=-1.0), "timeout"),
        (good(timeout_s=math.nan), "timeout"),
        (good(sampling=SamplingParams(temperature=-0.1)), "temperature"),
        (good(sampling=SamplingParams(temperature=100.1)), "temperature"),
        (good(sampling=SamplingParams(temperature=math.nan)), "temperature"),
        (good(sampling=SamplingParams(top_p=0.0)), "top_p"),
        (good(sampling=SamplingParams(top_p=1.1)), "top_p"),
        (good(sampling=SamplingParams(top_p=math.nan)), "top_p"),
        (good(sampling=SamplingParams(top_k=-1)), "top_k"),
        (good(sampling=SamplingParams(top_k=1 << 64)), "top_k"),
        (good(sampling=SamplingParams(seed=-1)), "seed"),
        (good(sampling=SamplingParams(seed=1 << 64)), "seed"),
        (good(sampling=SamplingParams(logprobs=-1)), "top_logprobs"),
        (good(sampling=SamplingParams(logprobs=21)), "top_logprobs"),
        (good(threshold=-0.1), "threshold"),
        (good(threshold=1.1), "threshold"),
        (good(threshold=math.nan), "threshold"),
        (good(threshold=math.inf), "threshold"),
        (good(only=-1), "only"),
        (good(only=2), "only"),
        (good(only=0, threshold=0.5), "only"),
    ],
)
def test_bad_field_is_named(group: Group, bad: GenerateRequest, param: str) -> None:
    with pytest.raises(RequestError) as caught:
        group.submit(bad)
    assert type(caught.value) is RequestError
    assert caught.value.param == param


@pytest.mark.parametrize(
    "bad",
    [
        good(prompt_ids=[np.int64(1)]),
        good(prompt_ids=np.ones(3, np.int64)),
        good(prompt_ids=[1.0]),
        good(prompt_ids="hello"),
        good(max_tokens=4.0),
        good(stop_token_ids=frozenset({"a"})),
        good(timeout_s="1"),
        good(threshold="0.5"),
        good(threshold=True),
        good(only=0.0),
        good(only="m0"),
        good(only=True),
        good(sampling=None),
        good(sampling=SamplingParams(seed=np.uint64(1))),  # type: ignore[arg-type]
    ],
    ids=str,
)
def test_wrong_types_are_refused_and_harm_nobody(group: Group, bad: GenerateRequest) -> None:
    with pytest.raises(RequestError, match="wrong type"):
        group.submit(bad)
    assert group.submit(good()).result()[1].reason == "length"


@pytest.mark.parametrize(
    ("prompt", "max_tokens", "param"),
    [
        (CONTEXT, 1, "messages"),
        (CONTEXT + 9, 1, "messages"),
        (CONTEXT - 1, 2, "max_tokens"),
        (1, 1 << 70, "max_tokens"),
    ],
)
def test_too_long(group: Group, prompt: int, max_tokens: int, param: str) -> None:
    with pytest.raises(RequestTooLongError, match=f"context of {CONTEXT} tokens") as caught:
        group.submit(good(prompt_ids=[65] * prompt, max_tokens=max_tokens))
    assert caught.value.param == param


@pytest.mark.parametrize(
    "edge",
    [
        good(prompt_ids=[0], max_tokens=CONTEXT - 1),
        good(prompt_ids=[256] * (CONTEXT - 1), max_tokens=1),
        good(timeout_s=math.inf),
        good(threshold=0),
        good(threshold=1.0),
        good(only=1),
        good(stop_token_ids=frozenset()),
        good(prompt_ids=(1, 2), stop_token_ids=[256]),
        good(sampling=SamplingParams(100.0, 1e-9, (1 << 31) - 1, (1 << 64) - 1, 20)),
    ],
)
def test_the_edges_of_what_is_allowed(group: Group, edge: GenerateRequest) -> None:
    tokens, final = group.submit(edge).result()
    assert final.reason == "length"
    assert len(tokens) == edge.max_tokens


@pytest.mark.parametrize(("router", "models"), [("me", 3), ("fixed", 2)])
def test_a_router_without_threshold(router: str, models: int) -> None:
    group = Group.open(profile_config(router, models=models))
    try:
        with pytest.raises(RequestError, match=f"'{router}' has no threshold") as caught:
            group.submit(good(threshold=0.5))
        assert caught.value.param == "threshold"
    finally:
        group.close()


def test_refused_requests_leave_nothing_behind(group: Group) -> None:
    with pytest.raises(RequestError):
        group.submit(good(max_tokens=0))
    status = group.status()
    assert (status.queued, status.active) == (0, 0)


# --- the queue


@pytest.fixture
def full() -> Iterator[tuple[Group, GateEngine]]:
    """One request active and held up; one more may wait."""
    group, engines = gate_group(profile_config("fixed", max_active=1, max_queue=1))
    engines[0].hold()
    group.submit(request(1))
    engines[0].wait_for(lambda engine: engine.entered == 1)
    yield group, engines[0]
    engines[0].let_go()
    group.close()


def test_full_queue(full: tuple[Group, GateEngine]) -> None:
    group, engine = full
    second = group.submit(request(2))
    with pytest.raises(QueueFullError, match="1 requests are waiting"):
        group.submit(request(3))
    assert (group.status().queued, group.status().active) == (1, 1)
    engine.let_go()
    assert second.result()[1].reason == "length"
    assert group.submit(request(3)).result()[1].reason == "length"


def test_a_queue_of_none_admits_what_is_served_at_once() -> None:
    group, engines = gate_group(profile_config("fixed", max_active=1, max_queue=0))
    engines[0].hold()
    first = group.submit(request(1))
    engines[0].wait_for(lambda engine: engine.entered == 1)
    with pytest.raises(QueueFullError):
        group.submit(request(2))
    engines[0].let_go()
    assert first.result()[1].reason == "length"
    group.close()


def test_an_aborted_request_leaves_the_queue(full: tuple[Group, GateEngine]) -> None:
    group, _ = full
    waiting = group.submit(request(2))
    group.abort(waiting)
    assert waiting.result() == ([], FinalEvent("abort"))
    group.submit(request(3))


# --- the end


def test_draining_refuses_and_waits(full: tuple[Group, GateEngine]) -> None:
    group, engine = full
    waiting = group.submit(request(2))
    assert not group.drain(timeout=0)
    with pytest.raises(GroupUnavailableError, match="shutting down"):
        group.submit(request(3))
    assert group.status().draining
    drained: list[bool] = []
    thread = threading.Thread(target=lambda: drained.append(group.drain()))
    thread.start()
    engine.let_go()
    thread.join(20)
    assert drained == [True]
    assert waiting.result()[1].reason == "length"


def test_close_twice_and_submit_after() -> None:
    group, _ = gate_group(profile_config("fixed"))
    group.close()
    group.close()
    with pytest.raises(GroupUnavailableError):
        group.submit(request())


def test_without_a_living_model() -> None:
    group, engines = gate_group(profile_config("bernoulli", {"p": 1.0}))
    for engine in engines:
        engine.break_down()
    assert group.submit(request()).result()[1].reason == "error"
    until(lambda: not any(s.alive for s in group.status().subservers))
    with pytest.raises(GroupUnavailableError, match="no model is left"):
        group.submit(request())
    group.close()


def test_a_model_thought_dead_for_its_full_inbox_ends_with_the_group() -> None:
    config = profile_config("fixed", models=1, max_active=2)
    group, (engine,) = gate_group(config, patience_s=0.01)
    engine.hold()
    group.submit(request(1))
    engine.wait_for(lambda engine: engine.entered == 1)
    large = good(prompt_ids=[200] * 240, stop_token_ids=frozenset(range(257)))
    with suppress(GroupUnavailableError):
        while True:
            stream = group.submit(large)
            until(lambda: group.status().active != 1)
            group.abort(stream)
    engine.let_go()
    until(lambda: engine.used == 0)
    group.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_after_a_deliver_that_raised_submit_refuses_and_close_returns() -> None:
    def deliver(batch: object) -> None:
        raise ZeroDivisionError("oops")

    group = Group.open(profile_config("fixed"), deliver=deliver)
    group.submit(request(1))
    until(lambda: unavailable(group))
    group.close()


def unavailable(group: Group) -> bool:
    try:
        group.abort(group.submit(request(2)))
    except GroupUnavailableError:
        return True
    except QueueFullError:
        pass
    return False
