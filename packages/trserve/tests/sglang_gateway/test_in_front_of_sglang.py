"""The gateway in front of SGLang's own server, on the CPU, with a tiny random model."""

from __future__ import annotations

import importlib.util
import json
import re
import warnings
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.support.gateway.running_gateway import RunningGateway, running_gateway
from tests.support.gateway.steady_answers import steady
from tests.support.waiting import until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        importlib.util.find_spec("sglang") is None,
        reason="SGLang isn't installed here: it is in .venv-sglang",
    ),
]

VOLATILE = re.compile(r'"(id|created|cached_tokens|e2e_latency)": ?("[^"]*"|[\d.]+),?')
ASKED = {"prompt": "hello world", "max_tokens": 12, "temperature": 0, "ignore_eos": True}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, RunningGateway]]:
    with warnings.catch_warnings(action="ignore"):  # of what SGLang and transformers import
        from benchmarks.systems.sglang_server import server_arguments, sglang_server
        from tests.support.sglang.tiny_models import make_pair

        small, _ = make_pair(tmp_path_factory.mktemp("tiny"))
    model = {"path": str(small), "dtype": "float32"}
    arguments = server_arguments(model, concurrency=4, context=512, gpu=0)
    arguments |= {"skip_tokenizer_init": False, "enable_metrics": True, "served_model_name": "tiny"}
    config = {
        "models": [{"name": "m", "context": 512}],
        "checks": {"health_s": 1, "health_timeout_s": 30, "telemetry_s": 0.2},
        "server": {"admin_key": "admin"},
    }
    with sglang_server(arguments, threads=1) as server:
        url = f"http://127.0.0.1:{server.port}"
        instance = {"name": "i", "model": "m", "url": url, "upstream_model": "tiny"}
        folder = tmp_path_factory.mktemp("gateway")
        with running_gateway(folder, {**config, "instances": [instance]}) as gateway:
            yield url, gateway


def texts_and_usage(stream: str) -> tuple[dict[int, str], list[int]]:
    *events, done = stream.removesuffix("\n\n").split("\n\n")
    assert done == "data: [DONE]"
    texts: dict[int, str] = {}
    used = []
    for event in map(json.loads, (each.removeprefix("data: ") for each in events)):
        for choice in event["choices"]:
            texts[choice["index"]] = texts.get(choice["index"], "") + choice["text"]
        if event["usage"]:
            assert event["choices"] == []
            used.append(event["usage"]["completion_tokens"])
    return texts, used


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"logprobs": 2},
        {"stream": True},
        {"stream": True, "stream_options": {"include_usage": True}},
        {"n": 2, "stream": True},
        {"temperature": "hot"},
        {"temperature": -1, "stream": True},
    ],
)
def test_it_says_what_the_server_says(
    served: tuple[str, RunningGateway], more: dict[str, Any]
) -> None:
    url, gateway = served
    body = {**ASKED, **more}
    direct = httpx.post(f"{url}/v1/completions", json={**body, "model": "tiny"}, timeout=120)
    through = httpx.post(f"{gateway.url}/v1/completions", json={**body, "model": "m"}, timeout=120)
    assert steady(direct, VOLATILE, texts_and_usage) == steady(through, VOLATILE, texts_and_usage)
    assert direct.status_code == (400 if "temperature" in more else 200)
    assert gateway.instances()["i"]["breaker"] == "closed"


def test_its_load_is_read_and_a_client_that_leaves_frees_it(
    served: tuple[str, RunningGateway],
) -> None:
    _, gateway = served
    until(lambda: gateway.instances()["i"]["telemetry_age_s"] is not None)
    body = {**ASKED, "model": "m", "max_tokens": 400, "stream": True}
    with (
        httpx.Client(timeout=120) as client,
        client.stream("POST", f"{gateway.url}/v1/completions", json=body) as answer,
    ):
        pieces = answer.iter_bytes()
        assert next(pieces)
        assert gateway.in_flight()["i"][1] == 1
    gateway.wait_until_idle()
    until(lambda: gateway.instances()["i"]["running"] == 0)
