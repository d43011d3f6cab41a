"""Fields that are wrong, unsupported or too much, each refused by name."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from pydantic import ValidationError

from tests.support.trserve.demo_server import Demo
from trserve.http.validation_errors import field_path
from trserve.openai.schemas.chat_request import ChatCompletionRequest
from trserve.openai.schemas.completion_request import CompletionRequest

CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"
HI: list[dict[str, Any]] = [{"role": "user", "content": "Hi"}]


def refused(demo: Demo, path: str, fields: dict[str, Any]) -> dict[str, Any]:
    body = {"model": "demo"} | ({"messages": HI} if path == CHAT else {"prompt": "Hi"}) | fields
    answer = demo.http.post(
        path, content=json.dumps(body), headers={"content-type": "application/json"}
    )
    assert answer.status_code == 400, answer.text
    assert demo.group.requests == []
    error: dict[str, Any] = answer.json()["error"]
    assert error["type"] == "invalid_request_error"
    assert set(error) == {"message", "type", "param", "code"}
    return error


@pytest.mark.parametrize(
    ("fields", "param", "code"),
    [
        ({"messages": []}, "messages", "invalid_value"),
        ({"messages": "Hi"}, "messages", "invalid_type"),
        ({"messages": None}, "messages", "invalid_type"),
        ({"messages": ["Hi"]}, "messages[0]", "invalid_type"),
        ({"messages": [{"content": "x"}]}, "messages[0]", "invalid_value"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0]", "invalid_value"),
        ({"messages": [{"role": "user"}]}, "messages[0].content", "missing_required_parameter"),
        (
            {"messages": [*HI, HI[0] | {"content": 1}]},
            "messages[1].content",
            "invalid_type",
        ),
        ({"messages": [{"role": "user", "content": []}]}, "messages[0].content", "invalid_value"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}]},
            "messages[0].content[0].type",
            "invalid_value",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "text", "text": None}]}]},
            "messages[0].content[0].text",
            "invalid_type",
        ),
        (
            {"messages": [{"role": "user", "content": "x", "extra": 1}]},
            "messages[0].extra",
            "unknown_parameter",
        ),
        (
            {"messages": [{"role": "assistant", "content": "x", "tool_calls": [{}]}]},
            "messages[0].tool_calls",
            "unsupported_parameter",
        ),
        ({"model": None}, "model", "invalid_type"),
        ({"temperature": "1"}, "temperature", "invalid_type"),
        ({"temperature": True}, "temperature", "invalid_type"),
        ({"temperature": -0.1}, "temperature", "invalid_value"),
        ({"temperature": 1e300}, "temperature", "invalid_value"),
        ({"temperature": float("nan")}, "temperature", "invalid_value"),
        ({"temperature": float("inf")}, "temperature", "invalid_value"),
        ({"top_p": 0}, "top_p", "invalid_value"),
        ({"top_p": 1.1}, "top_p", "invalid_value"),
        ({"top_k": -1}, "top_k", "invalid_value"),
        ({"top_k": 1.5}, "top_k", "invalid_type"),
        ({"seed": 1 << 64}, "seed", "invalid_value"),
        ({"seed": 10**400}, "seed", "invalid_value"),
        ({"max_tokens": 0}, "max_tokens", "invalid_value"),
        ({"max_tokens": 1.0}, "max_tokens", "invalid_type"),
        ({"max_tokens": 1, "max_completion_tokens": 2}, "max_tokens", "invalid_value"),
        ({"max_tokens": 100_000}, "messages", "context_length_exceeded"),
        ({"messages": [{"role": "user", "content": "x" * 600}]}, "messages", None),
        ({"messages": [{"role": "user", "content": "x" * 1_000_000}]}, "messages", None),
        ({"n": 0}, "n", "invalid_value"),
        ({"n": 17}, "n", "invalid_value"),
        ({"n": 10**6}, "n", "invalid_value"),
        ({"stop": ""}, "stop", "invalid_value"),
        ({"stop": ["a"] * 5}, "stop", "invalid_value"),
        ({"stop": ["a", 1]}, "stop[1]", "invalid_type"),
        ({"stop": 5}, "stop", "invalid_type"),
        ({"stream": "yes"}, "stream", "invalid_type"),
        ({"stream_options": {"include_usage": True}}, "stream_options", "invalid_value"),
        ({"logprobs": 5}, "logprobs", "invalid_type"),
        ({"top_logprobs": 5}, "top_logprobs", "invalid_value"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs", "invalid_value"),
        ({"tokenrouter": {"models": True}}, "tokenrouter.models", "unknown_parameter"),
        ({"tokenrouter": {"timeout_s": 0}}, "tokenrouter.timeout_s", "invalid_value"),
        ({"tokenrouter": {"threshold": "0.3"}}, "tokenrouter.threshold", "invalid_type"),
        ({"tokenrouter": {"threshold": math.nan}}, "tokenrouter.threshold", "invalid_value"),
        ({"tokenrouter": {"threshold": math.inf}}, "tokenrouter.threshold", "invalid_value"),
        ({"tokenrouter": {"only": 1}}, "tokenrouter.only", "invalid_type"),
        ({"tokenrouter": {"only": ""}}, "tokenrouter.only", "invalid_value"),
        ({"tokenrouter": {"only": "demo"}}, "tokenrouter.only", "invalid_value"),
        ({"tokenrouter": {"only": "small", "threshold": 0}}, "tokenrouter.only", "invalid_value"),
        ({"chat_template_kwargs": {}}, "chat_template_kwargs", "unknown_parameter"),
        ({"\ud800": 1}, None, None),
        ({"user": "\ud800"}, "user", "invalid_value"),
        (
            {"messages": [HI[0] | {"content": "\udfff"}]},
            "messages[0].content",
            "invalid_value",
        ),
        ({"stop": ["\udfff"]}, "stop[0]", "invalid_value"),
        ({"x" * 500: 1}, "x" * 100 + "…", "unknown_parameter"),
    ],
    ids=lambda value: json.dumps(value)[:60] if isinstance(value, dict) else "",
)
def test_chat(demo: Demo, fields: dict[str, Any], param: str | None, code: str | None) -> None:
    error = refused(demo, CHAT, fields)
    if param is not None:
        assert error["param"] == param
        assert error["code"] == (code or "context_length_exceeded")
        assert param in error["message"] or error["code"] == "context_length_exceeded"


def test_a_model_that_there_is_not_is_told_which_there_are(demo: Demo) -> None:
    error = refused(demo, TEXT, {"tokenrouter": {"only": "medium"}})
    assert error["message"] == "'tokenrouter.only' must be one of the models 'small', 'large'."


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("tools", [{"type": "function", "function": {"name": "f"}}]),
        ("tool_choice", "required"),
        ("functions", [{"name": "f"}]),
        ("response_format", {"type": "json_object"}),
        ("logit_bias", {"50256": -100}),
        ("frequency_penalty", 0.5),
        ("presence_penalty", -1),
        ("modalities", ["text", "audio"]),
        ("audio", {"voice": "alloy"}),
        ("prediction", {"type": "content", "content": "x"}),
        ("reasoning_effort", "high"),
        ("web_search_options", {}),
        ("store", True),
    ],
)
def test_unsupported_in_chat(demo: Demo, field: str, value: object) -> None:
    error = refused(demo, CHAT, {field: value})
    assert error["param"] == field
    assert error["code"] == "unsupported_parameter"
    assert f"'{field}' is not supported" in error["message"]


def test_harmless_values_of_unsupported_fields(demo: Demo) -> None:
    answer = demo.chat(
        tools=[],
        tool_choice="none",
        response_format={"type": "text"},
        logit_bias={},
        frequency_penalty=0,
        presence_penalty=0.0,
        modalities=["text"],
        store=False,
        service_tier="auto",
        parallel_tool_calls=True,
        audio=None,
    )
    assert answer.status_code == 200


@pytest.mark.parametrize(
    ("fields", "param", "code"),
    [
        ({"prompt": None}, "prompt", "invalid_type"),
        ({"prompt": ""}, "prompt", "invalid_value"),
        ({"prompt": []}, "prompt", "invalid_value"),
        ({"prompt": ["a", ""]}, "prompt[1]", "invalid_value"),
        ({"prompt": ["a", 1]}, "prompt[1]", "invalid_type"),
        ({"prompt": [1, "a"]}, "prompt[1]", "invalid_type"),
        ({"prompt": [-1]}, "prompt[0]", "invalid_value"),
        ({"prompt": [1, 259]}, "prompt[1]", "invalid_value"),
        ({"prompt": [[1], [2, 1 << 70]]}, "prompt[1][1]", "invalid_value"),
        ({"prompt": [[1], []]}, "prompt[1]", "invalid_value"),
        ({"prompt": {"text": "a"}}, "prompt", "invalid_type"),
        ({"prompt": [True]}, "prompt", "invalid_type"),
        ({"prompt": ["a"] * 128, "n": 2}, "prompt", "invalid_value"),
        ({"prompt": [1] * 512}, "prompt", "context_length_exceeded"),
        ({"logprobs": True}, "logprobs", "invalid_type"),
        ({"logprobs": 21}, "logprobs", "invalid_value"),
        ({"best_of": 2}, "best_of", "invalid_value"),
        ({"echo": True}, "echo", "unsupported_parameter"),
        ({"suffix": "x"}, "suffix", "unsupported_parameter"),
        ({"messages": HI}, "messages", "unknown_parameter"),
    ],
    ids=lambda value: json.dumps(value)[:60] if isinstance(value, dict) else "",
)
def test_completions(demo: Demo, fields: dict[str, Any], param: str, code: str) -> None:
    error = refused(demo, TEXT, fields)
    assert (error["param"], error["code"]) == (param, code)


def test_unknown_model(demo: Demo) -> None:
    for answer in (demo.chat(model="other"), demo.complete(model="\u0000")):
        assert answer.status_code == 404
        assert answer.json()["error"]["code"] == "model_not_found"
        assert answer.json()["error"]["param"] == "model"


@pytest.mark.parametrize(
    ("path", "fields", "param"),
    [
        (CHAT, {"messages": [1] * 100_000}, "messages[0]"),
        (CHAT, {"messages": [HI[0] | {"content": [1] * 100_000}]}, "messages[0].content[0]"),
        (TEXT, {"prompt": [-1] * 100_000}, "prompt[0]"),
        (TEXT, {"prompt": [[1], [-1] * 100_000]}, "prompt[1][0]"),
    ],
)
def test_only_the_first_of_many_errors_is_looked_for(
    path: str, fields: dict[str, Any], param: str
) -> None:
    schema = ChatCompletionRequest if path == CHAT else CompletionRequest
    body = {"model": "demo"} | fields
    with pytest.raises(ValidationError) as error:
        schema.model_validate(body)
    assert error.value.error_count() == 1
    assert field_path(error.value.errors()[0]["loc"], body) == param


def test_more_messages_than_the_context_has_tokens(demo: Demo) -> None:
    error = refused(demo, CHAT, {"messages": [HI[0] | {"content": ""}] * 3000})
    assert (error["param"], error["code"]) == ("messages", "context_length_exceeded")
    assert "at least 3000 tokens" in error["message"]
