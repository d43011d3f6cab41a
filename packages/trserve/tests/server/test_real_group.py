"""The server over real groups: the scheduler's threads, profile engines, random bytes as text."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from tests.support.trserve.demo_server import serve
from tests.support.trserve.sse_events import delta_text, sse_events
from tests.support.waiting import until
from trsched.group import Group
from trsched.plan.config import group_config
from trserve.server.group.event_delivery import EventDelivery
from trserve.server.group.served_group import ServedGroup

CHAT = {"model": "pair", "messages": [{"role": "user", "content": "Hi"}], "seed": 1}


@contextmanager
def pair(**changes: Any) -> Iterator[tuple[httpx.Client, Group]]:
    config = group_config(
        {
            "name": "pair",
            "models": [
                {"engine": "profile", "name": "small", "step_ms": [0.5]},
                {"engine": "profile", "name": "large", "step_ms": [1.0]},
            ],
            "router": {"name": "bernoulli", "settings": {"p": 0.3}},
            "context": 512,
            "kv_memory": "64MiB",
        }
        | changes
    )
    delivery = EventDelivery()
    group = Group.open(config, deliver=delivery.deliver)
    try:
        served = ServedGroup(group, delivery)
        with serve(served) as url, httpx.Client(base_url=url, timeout=30) as client:
            yield client, group
    finally:
        group.close()


@pytest.fixture(scope="module")
def real() -> Iterator[tuple[httpx.Client, Group]]:
    with pair() as both:
        yield both


def chat(client: httpx.Client, **fields: Any) -> httpx.Response:
    return client.post("/v1/chat/completions", json=CHAT | fields)


def test_streamed_and_whole_answers_agree(real: tuple[httpx.Client, Group]) -> None:
    client, _ = real
    ask = {"max_tokens": 60, "tokenrouter": {"model_per_token": True}}
    whole = chat(client, **ask).json()
    choice = whole["choices"][0]
    models = choice["tokenrouter"]["models"]
    assert len(models) == whole["usage"]["completion_tokens"]
    assert set(models) == {0, 1}
    assert whole["usage"]["tokenrouter"]["completion_tokens_by_model"] == {
        "small": models.count(0),
        "large": models.count(1),
    }
    assert whole["usage"]["tokenrouter"]["handoffs"] > 0
    events = sse_events(chat(client, stream=True, **ask).text)
    assert delta_text(events) == choice["message"]["content"]
    streamed = [m for e in events for m in e["choices"][0].get("tokenrouter", {}).get("models", [])]
    assert streamed == models


def made_by(client: httpx.Client, **extension: Any) -> list[int]:
    """The model of each of the answer's tokens, streamed or not."""
    extension["model_per_token"] = True
    answer = chat(client, max_tokens=40, tokenrouter=extension)
    assert answer.status_code == 200, answer.text
    models: list[int] = answer.json()["choices"][0]["tokenrouter"]["models"]
    events = sse_events(chat(client, max_tokens=40, tokenrouter=extension, stream=True).text)
    streamed = [m for e in events for m in e["choices"][0].get("tokenrouter", {}).get("models", [])]
    assert streamed == models
    return models


def test_a_requests_own_threshold(real: tuple[httpx.Client, Group]) -> None:
    """As in a group that is configured with it."""
    client, _ = real
    assert set(made_by(client, threshold=0)) == {0}
    assert set(made_by(client, threshold=1)) == {1}
    assert made_by(client, threshold=0.3) == made_by(client)
    with pair(router={"name": "bernoulli", "settings": {"p": 0.7}}) as (other, _):
        assert made_by(client, threshold=0.7) == made_by(other) != made_by(client)


@pytest.mark.parametrize(("name", "index"), [("small", 0), ("large", 1)])
def test_only_one_model(real: tuple[httpx.Client, Group], name: str, index: int) -> None:
    client, _ = real
    assert set(made_by(client, only=name)) == {index}
    usage = chat(client, max_tokens=9, n=2, tokenrouter={"only": name}).json()["usage"]
    counts = {"small": 0, "large": 0} | {name: usage["completion_tokens"]}
    assert usage["tokenrouter"] == {"completion_tokens_by_model": counts, "handoffs": 0}


@pytest.mark.parametrize("threshold", [-0.01, 1.01, 1e300])
@pytest.mark.parametrize("stream", [False, True])
def test_a_threshold_out_of_range(
    real: tuple[httpx.Client, Group], threshold: float, stream: bool
) -> None:
    answer = chat(real[0], tokenrouter={"threshold": threshold}, stream=stream)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (400, "invalid_value")
    assert error["param"] == "tokenrouter.threshold"
    assert error["message"] == "the threshold (p) must be from 0 to 1"


def test_a_router_without_threshold() -> None:
    with pair(router={"name": "me"}) as (client, _):
        card = client.get("/v1/models/pair").json()
        assert card["tokenrouter"] == {
            "models": ["small", "large"],
            "router": "me",
            "threshold": None,
        }
        answer = chat(client, tokenrouter={"threshold": 0.5})
        assert answer.status_code == 400
        assert answer.json()["error"]["param"] == "tokenrouter.threshold"
        assert "'me'" in answer.json()["error"]["message"]
        assert set(made_by(client, only="large")) == {1}


def test_logprobs(real: tuple[httpx.Client, Group]) -> None:
    client, _ = real
    answer = chat(client, max_tokens=5, logprobs=True, top_logprobs=2)
    assert answer.status_code == 200
    content = answer.json()["choices"][0]["logprobs"]["content"]
    assert len(content) == 5
    assert all(entry["logprob"] <= 0 for entry in content)


def test_many_clients_and_some_leave() -> None:
    done: list[int] = []
    with pair() as (client, group):
        url = f"{str(client.base_url).rstrip('/')}/v1/chat/completions"

        def ask(i: int) -> None:
            body = CHAT | {"max_tokens": 100, "stream": True, "seed": i}
            with httpx.stream("POST", url, json=body, timeout=30) as answer:
                parts = answer.iter_text()
                text = next(parts)
                if i % 4:
                    text += "".join(parts)
                    assert sse_events(text)
                    done.append(i)

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(24)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert sorted(done) == [i for i in range(24) if i % 4]
        assert group.drain(20)
        status = group.status()
        assert sum(status.finished.values()) == 24
        until(lambda: not any(subserver.kv_tokens_used for subserver in status.subservers))


def test_deadline() -> None:
    with pair(
        models=[{"engine": "profile", "name": "slow", "step_ms": [20.0]}], router={"name": "fixed"}
    ) as (client, _):
        answer = chat(client, tokenrouter={"timeout_s": 0.2})
        assert answer.status_code == 504
        assert answer.json()["error"]["code"] == "timeout"
        events = sse_events(chat(client, stream=True, tokenrouter={"timeout_s": 0.2}).text)
        assert events[-1]["error"]["code"] == "timeout"


def test_close_ends_streams_with_an_error() -> None:
    with pair() as (client, group):
        body = CHAT | {"max_tokens": 400, "stream": True}
        with client.stream("POST", "/v1/chat/completions", json=body) as answer:
            parts = answer.iter_text()
            text = next(parts)
            group.close()
            text += "".join(parts)
        assert sse_events(text)[-1]["error"]["code"] == "shutdown"
        assert client.get("/health").status_code == 503
        assert chat(client).status_code == 503
