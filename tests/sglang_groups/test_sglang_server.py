"""`trserve launch` with a configuration file of SGLang models, asked by the official client."""

from __future__ import annotations

import json
import math
import re
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam

from tests.sglang_groups.tiny_group import tiny_settings
from tests.support.trserve.server_process import ServerProcess, running_server
from tests.support.waiting import until

pytestmark = pytest.mark.slow

HELLO: list[ChatCompletionMessageParam] = [{"role": "user", "content": "hello world"}]
PROCESS = re.compile(r"model (\d) (small|large).*: process (\d+)")
OUR_LINE = re.compile(r"\d\d:\d\d:\d\d \[(info|warning) *\] ")
EXAMPLE = re.compile(r"(Try it .*:|  curl -N .*)?$")


@dataclass(frozen=True)
class Running:
    """start: what it has written to stderr by the time it was ready."""

    process: ServerProcess
    url: str
    start: list[str]

    @property
    def model_pids(self) -> list[int]:
        return [int(pid) for _, _, pid in PROCESS.findall("".join(self.process.lines))]


@pytest.fixture(scope="module")
def server(pair: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """With two ranks of the large model. Ended by Ctrl-C, which leaves nothing behind."""
    folder = tmp_path_factory.mktemp("server")
    config = folder / "tiny.yaml"
    config.write_text(json.dumps(tiny_settings(pair, "bernoulli", {"p": 0.4}, tp=2, chunk=32)))
    with running_server(folder, source=("--config", str(config))) as (process, url):
        running = Running(process, url, list(process.lines))
        pids = running.model_pids
        assert len(set(pids)) == 3
        yield running
        process.signal(signal.SIGINT)
        status, output, lines = process.finish()
    assert (status, output) == (0, ""), lines
    text = "".join(lines)
    assert "Traceback" not in text, text
    assert "[error" not in text, text
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    segments = [path.name.split("-") for path in Path("/dev/shm").glob("trcore-*")]
    assert not {int(parts[2]) for parts in segments} & {process.process.pid, *pids}


@pytest.fixture
def client(server: Running) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        yield client


def chat(client: openai.OpenAI, **more: Any) -> Any:
    return client.chat.completions.create(
        **{"model": "tiny", "messages": HELLO, "max_tokens": 24, **more}
    )


def test_the_log_of_its_start_is_ours_alone(server: Running) -> None:
    """Nothing of SGLang, transformers, tqdm or Python's warnings."""
    others = [
        line
        for line in server.start
        if not OUR_LINE.match(line) and not EXAMPLE.match(line.rstrip("\n"))
    ]
    assert others == []


def test_both_models_write_one_answer(client: openai.OpenAI) -> None:
    answer = chat(client, seed=1, extra_body={"tokenrouter": {"model_per_token": True}})
    models = answer.choices[0].model_extra["tokenrouter"]["models"]
    by_model = answer.usage.model_extra["tokenrouter"]["completion_tokens_by_model"]
    assert len(models) == answer.usage.completion_tokens
    assert by_model == {"small": models.count(0), "large": models.count(1)}
    assert min(by_model.values()) > 0
    assert answer.usage.prompt_tokens > 4
    assert answer.usage.total_tokens == len(models) + answer.usage.prompt_tokens


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_streamed_equals_whole_for_16_clients_at_once(
    client: openai.OpenAI, temperature: float
) -> None:
    def whole(seed: int) -> tuple[str, str, int]:
        answer = chat(client, seed=seed, temperature=temperature)
        choice = answer.choices[0]
        return choice.message.content, choice.finish_reason, answer.usage.completion_tokens

    def streamed(seed: int) -> tuple[str, str | None, int]:
        text, finish, usages = "", None, []
        for chunk in chat(
            client,
            seed=seed,
            temperature=temperature,
            stream=True,
            stream_options={"include_usage": True},
        ):
            if chunk.usage is not None:
                assert chunk.choices == []
                usages.append(chunk.usage.completion_tokens)
            for choice in chunk.choices:
                text += choice.delta.content or ""
                finish = choice.finish_reason or finish
        (tokens,) = usages
        return text, finish, tokens

    with ThreadPoolExecutor(16) as pool:
        pieces = list(pool.map(streamed, range(16)))
        wholes = list(pool.map(whole, range(16)))
    assert pieces == wholes
    assert len({text for text, _, _ in wholes}) == 16  # by the seed: draws, or who writes


def test_n_answers_have_seeds_of_their_own(client: openai.OpenAI) -> None:
    both = chat(client, seed=5, n=2)
    first, second = (chat(client, seed=seed).choices[0].message.content for seed in (5, 6))
    assert first != second
    assert [choice.index for choice in both.choices] == [0, 1]
    assert [choice.message.content for choice in both.choices] == [first, second]


def test_completions_with_logprobs(client: openai.OpenAI) -> None:
    """The greedy token is the most likely one, of either model."""
    answer = client.completions.create(
        model="tiny", prompt="the quick brown", max_tokens=12, temperature=0, logprobs=3
    )
    shown = answer.choices[0].logprobs
    assert shown is not None
    assert shown.token_logprobs is not None
    assert shown.top_logprobs is not None
    assert len(shown.token_logprobs) == len(shown.top_logprobs) == answer.usage.completion_tokens  # type: ignore[union-attr]
    for own, top in zip(shown.token_logprobs, shown.top_logprobs, strict=True):
        assert own == pytest.approx(max(top.values()))
        assert sum(map(math.exp, top.values())) < 1


def test_chat_with_logprobs(client: openai.OpenAI) -> None:
    answer = chat(client, seed=3, logprobs=True, top_logprobs=2)
    content = answer.choices[0].logprobs.content
    assert len(content) == answer.usage.completion_tokens
    assert all(len(token.top_logprobs) == 2 and token.logprob <= 0 for token in content)


def test_stop_strings_end_an_answer_before_them(client: openai.OpenAI) -> None:
    text = chat(client, seed=2).choices[0].message.content
    stop = text[len(text) // 2 : len(text) // 2 + 3]
    cut = chat(client, seed=2, stop=[stop]).choices[0]
    assert cut.message.content == text[: text.index(stop)]
    assert cut.finish_reason == "stop"


def test_a_client_that_leaves_frees_both_models(server: Running, client: openai.OpenAI) -> None:
    for _ in range(4):
        with chat(client, max_tokens=100, stream=True) as stream:
            next(iter(stream))
    with httpx.Client() as http:

        def held() -> dict[str, float]:
            page = http.get(f"{server.url}/metrics").text
            found = re.findall(r'trserve_subserver_kv_used_tokens\{subserver="(\w+)"\} (\S+)', page)
            return {name: float(tokens) for name, tokens in found}

        assert set(held()) == {"small", "large"}
        until(lambda: not any(held().values()))
        page = http.get(f"{server.url}/metrics").text
    for name in ("small", "large"):
        assert f'trserve_subserver_up{{subserver="{name}"}} 1.0' in page


def test_a_bad_request_harms_no_other(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as error:
        chat(client, temperature=-1)
    assert error.value.param == "temperature"
    assert chat(client, max_tokens=2).usage.completion_tokens <= 2
