"""What requests say: prompts, lengths, fields, headers; and flags that make no sense."""

from __future__ import annotations

import json
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trsched.errors import ConfigError
from trsched.models.model_path import resolve_model_path
from trsched.models.vocabulary import GgufVocabulary
from trserve.bench.plan.load_plan import ClosedLoad, OpenLoad
from trserve.bench.plan.made_up_prompts import WORDS, MadeUpPrompts
from trserve.bench.plan.request_plan import RequestOptions, RequestPlan, plan_requests, server_url

SMALL_MODEL = "package://trserve/models/smollm2-slm8.IQ4_NL.gguf"
NAN = float("nan")
CLOSED = ClosedLoad(1, 10, None)
TRACED = OpenLoad(np.zeros(4), None, np.array([3, 0, NAN, 200.0]), np.array([9, NAN, 0, 7.0]))


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("TRSERVE_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(variable, raising=False)


def plan(load: OpenLoad | ClosedLoad = CLOSED, seed: int = 0, **options: Any) -> RequestPlan:
    defaults: dict[str, Any] = {
        "endpoint": "chat",
        "model": "m",
        "prompts": None,
        "input_tokens": None,
        "output_tokens": None,
        "temperature": None,
        "stream": True,
        "extra_body": None,
        "headers": (),
        "api_key": None,
        "timeout": 9.0,
    }
    return plan_requests(RequestOptions(**(defaults | options)), load, seed)


def bodies(made: RequestPlan, n: int = 20) -> list[dict[str, Any]]:
    return [json.loads(body) for body in islice(made.bodies(), n)]


def words(body: dict[str, Any]) -> int:
    return len(body["messages"][0]["content"].split())


def test_a_chat() -> None:
    (body,) = bodies(plan(temperature=0.5, input_tokens="40", output_tokens="8"), 1)
    (message,) = body.pop("messages")
    assert message.keys() == {"role", "content"}
    assert (message["role"], len(message["content"].split())) == ("user", 40)
    assert body == {
        "model": "m",
        "max_tokens": 8,
        "temperature": 0.5,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_a_completion_and_other_fields() -> None:
    extra = '{"ignore_eos": true, "max_tokens": 5, "stream_options": null}'
    (body,) = bodies(plan(endpoint="completions", stream=False, extra_body=extra), 1)
    assert len(body.pop("prompt").split()) == 128
    assert body == {
        "model": "m",
        "max_tokens": 5,
        "stream": False,
        "ignore_eos": True,
        "stream_options": None,
    }


def test_lengths_are_uniform_and_both_ends_come_up() -> None:
    made = bodies(plan(input_tokens="1:4", output_tokens="30:32"), 400)
    for counts, low, high in (
        (Counter(map(words, made)), 1, 4),
        (Counter(body["max_tokens"] for body in made), 30, 32),
    ):
        assert sorted(counts) == list(range(low, high + 1))
        assert min(counts.values()) > 400 / len(counts) / 2


def test_a_trace_tells_lengths_unless_a_flag_does() -> None:
    made = bodies(plan(TRACED, input_tokens=None, output_tokens=None))
    assert [words(body) for body in made] == [3, 1, 128, 200]
    assert [body["max_tokens"] for body in made] == [9, 128, 1, 7]
    made = bodies(plan(TRACED, input_tokens="5", output_tokens="6"), 4)
    assert [words(body) for body in made] == [5] * 4
    assert [body["max_tokens"] for body in made] == [6] * 4


def test_made_up_prompts_repeat_by_seed_and_share_no_beginning() -> None:
    """Else a server's prefix cache would answer for the model."""
    made = bodies(plan(input_tokens="300", seed=1), 200)
    assert made == bodies(plan(input_tokens="300", seed=1), 200)
    texts = [body["messages"][0]["content"].split() for body in made]
    other = bodies(plan(input_tokens="300", seed=2), 200)
    warm_up = [json.loads(body) for body in islice(plan(seed=1).warm_up_bodies(), 200)]
    texts += [body["messages"][0]["content"].split() for body in other + warm_up]
    assert len({tuple(text[:8]) for text in texts}) == 600


def test_words_are_tokens() -> None:
    """Of the vocabulary that comes with trserve."""
    vocabulary = GgufVocabulary(resolve_model_path(SMALL_MODEL, "path"))
    for tokens in (1, 16, 17, 2000):
        text = " " + MadeUpPrompts(seed=tokens).text(tokens)
        assert len(vocabulary.encode(text, special=False)) == tokens
    for word in WORDS:
        assert len(vocabulary.encode(f" {word}", special=False)) == 1


def test_a_long_made_up_prompt() -> None:
    (body,) = bodies(plan(input_tokens="150000"), 1)
    assert words(body) == 150_000


def test_prompts_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "prompts"
    path.write_text("first one\n\n  second\n")
    contents = [body["messages"][0]["content"] for body in bodies(plan(prompts=path), 3)]
    assert contents == ["first one", "  second", "first one"]
    messages = [{"role": "system", "content": "x"}, {"role": "user", "content": "é"}]
    path.write_text(
        json.dumps({"prompt": "p", "id": 3}) + "\n" + json.dumps({"messages": messages})
    )
    one, two = bodies(plan(prompts=path), 2)
    assert one["messages"] == [{"role": "user", "content": "p"}]
    assert two["messages"] == messages
    path.write_text("plain")
    (body,) = bodies(plan(prompts=path, endpoint="completions"), 1)
    assert body["prompt"] == "plain"


def test_prompts_of_a_file_end_at_line_feeds_alone(tmp_path: Path) -> None:
    """Not at what else Unicode takes for an end of a line; a byte order mark is none of theirs."""
    path = tmp_path / "prompts"
    path.write_bytes("\ufeffa\u2028b\x0bc\x85d\r\ne\n".encode())
    contents = [body["messages"][0]["content"] for body in bodies(plan(prompts=path), 2)]
    assert contents == ["a\u2028b\x0bc\x85d", "e"]
    path.write_bytes('\ufeff{"prompt": "a\u2028b"}\r\n{"prompt": "c"}'.encode())
    contents = [body["messages"][0]["content"] for body in bodies(plan(prompts=path), 2)]
    assert contents == ["a\u2028b", "c"]


def test_a_warm_up_leaves_the_prompts_of_a_file_alone(tmp_path: Path) -> None:
    """Else they would be in the server's cache when they are measured."""
    path = tmp_path / "prompts"
    path.write_text("one\ntwo\n")
    warm_up = [json.loads(body) for body in islice(plan(prompts=path).warm_up_bodies(), 4)]
    assert [words(body) for body in warm_up] == [128] * 4


def test_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    assert plan().headers == {}
    monkeypatch.setenv("OPENAI_API_KEY", "c")
    assert plan().headers == {"Authorization": "Bearer c"}
    monkeypatch.setenv("TRSERVE_API_KEY", "b")
    assert plan().headers == {"Authorization": "Bearer b"}
    made = plan(api_key="a", headers=["X-One: 1", "x-two:a:b"])
    assert made.headers == {"Authorization": "Bearer a", "X-One": "1", "x-two": "a:b"}
    made = plan(api_key="a", headers=["authorization: Basic b"])
    assert made.headers == {"authorization": "Basic b"}


@pytest.mark.parametrize("key", ["a\n", "a\r\nX: y", "a\x7f", "a\udcff"])
def test_a_key_that_cannot_be_sent(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    """Its value is not shown."""
    with pytest.raises(ConfigError, match="no header can hold") as found:
        plan(api_key=key)
    assert found.value.field == "--api-key"
    for variable in ("OPENAI_API_KEY", "TRSERVE_API_KEY"):
        monkeypatch.setenv(variable, key)
        with pytest.raises(ConfigError, match="no header can hold") as found:
            plan()
        assert found.value.field == variable


@pytest.mark.parametrize(
    ("options", "field", "message"),
    [
        ({"endpoint": "embeddings"}, "--endpoint", "chat or completions"),
        ({"timeout": 0.0}, "--timeout", "above 0"),
        ({"timeout": NAN}, "--timeout", "above 0"),
        ({"input_tokens": "0"}, "--input-tokens", "1 ≤ A"),
        ({"input_tokens": "9:3"}, "--input-tokens", "A ≤ B"),
        ({"output_tokens": "a"}, "--output-tokens", "expected a number"),
        ({"output_tokens": "1:2:3"}, "--output-tokens", "expected a number"),
        ({"input_tokens": "9" * 5000}, "--input-tokens", "expected a number"),
        ({"model": "a\udcff"}, "--model", "UTF-8"),
        ({"extra_body": '{"a": "\udcff"}'}, "--extra-body", "UTF-8"),
        ({"output_tokens": "-4"}, "--output-tokens", "expected a number"),
        ({"extra_body": "{"}, "--extra-body", "JSON object"),
        ({"extra_body": "[1]"}, "--extra-body", "JSON object"),
        ({"extra_body": '{"x":' + "[" * 100_000}, "--extra-body", "JSON object"),
        ({"headers": ["nothing"]}, "--header", "NAME: VALUE"),
        ({"headers": [": x"]}, "--header", "NAME: VALUE"),
        ({"headers": ["a: b\r\nc: d"]}, "--header", "NAME: VALUE"),
        ({"prompts": Path("none.txt")}, "--prompts", "No such file"),
    ],
)
def test_flags_that_are_wrong(options: dict[str, Any], field: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as found:
        plan(**options)
    assert found.value.field == field


@pytest.mark.parametrize(
    ("content", "options", "field", "message"),
    [
        (b"\n \n", {}, "--prompts", "has no prompts"),
        (b"\xff", {}, "--prompts", "no UTF-8"),
        (b'{"prompt": "a"}\n{"prompt": 3}', {}, "--prompts", "prompt 2: Expected"),
        (b'{"prompt": "a"}\nplain', {}, "--prompts", "prompt 2"),
        (b'{"x":' + b"[" * 100_000, {}, "--prompts", "prompt 1"),
        (b'{"text": "a"}', {}, "--prompts", "either"),
        (b'{"prompt": "a", "messages": [{"role": "user"}]}', {}, "--prompts", "either"),
        (b'{"messages": []}', {}, "--prompts", "either"),
        (b'{"messages": [{}]}', {"endpoint": "completions"}, "--prompts", "need --endpoint chat"),
        (b"a", {"input_tokens": "3"}, "--input-tokens", "not with --prompts"),
    ],
)
def test_prompts_that_are_wrong(
    tmp_path: Path, content: bytes, options: dict[str, Any], field: str, message: str
) -> None:
    path = tmp_path / "prompts"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=message) as found:
        plan(prompts=path, **options)
    assert found.value.field == field


def test_urls() -> None:
    for url in (
        "http://host:8000",
        "http://host:8000/",
        "http://host:8000/v1",
        "http://host:8000/v1/",
    ):
        assert server_url(url) == "http://host:8000"
    assert server_url("https://host/prefix/v1") == "https://host/prefix"
    for url in ("http://me:secret@host", "http://host?a=secret", "http://host/#secret"):
        with pytest.raises(ConfigError) as found:
            server_url(url)
        assert found.value.field == "URL"
        assert "secret" not in str(found.value)
    for url in ("host:8000", "", "ftp://host", "http://", "http://host:99999", "http://[::1"):
        with pytest.raises(ConfigError) as found:
            server_url(url)
        assert found.value.field == "URL"
