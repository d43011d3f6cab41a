"""What the gateway reads of a request, and what it leaves alone."""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trserve.gateway.http.body_parser import parse_body, tokens_of
from trserve.gateway.pool.instance import capability_bits
from trserve.http.errors import ApiError

MESSAGES = [{"role": "user", "content": "Hi"}]
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def chat(**fields: Any) -> bytes:
    return json.dumps({"model": "auto", "messages": MESSAGES} | fields).encode()


def refusal(body: bytes, kind: Any = "chat") -> ApiError:
    with pytest.raises(ApiError) as caught:
        parse_body(body, kind)
    assert caught.value.status_code == 400
    return caught.value


@given(unknown=st.dictionaries(st.text(min_size=1).map("x_{}".format), JSON, max_size=4))
def test_unknown_fields_keep_their_bytes(unknown: dict[str, Any]) -> None:
    body = parse_body(chat(**unknown), "chat")
    for name, value in unknown.items():
        assert bytes(body.fields[name]) == json.dumps(value).encode()


def test_numbers_are_not_rewritten() -> None:
    given = b'{"model":"m","messages":[{"role":"user"}],"seed":12345678901234567890,"p":1.50e0}'
    body = parse_body(given, "chat")
    assert bytes(body.fields["seed"]) == b"12345678901234567890"
    assert bytes(body.fields["p"]) == b"1.50e0"


def test_the_gateways_own_object_goes_no_further() -> None:
    body = parse_body(chat(routebalance={"explain": True, "max_usd": 0.5, "models": ["a"]}), "chat")
    assert "routebalance" not in body.fields
    assert body.options.explain
    assert (body.max_usd, body.max_seconds) == (0.5, math.inf)
    assert body.options.models == ["a"]


def test_a_tokenrouter_that_is_null_is_none() -> None:
    assert "tokenrouter" not in parse_body(chat(tokenrouter=None), "chat").fields
    assert bytes(parse_body(chat(tokenrouter={}), "chat").fields["tokenrouter"]) == b"{}"


def test_the_prompt_is_the_last_thing_the_user_said() -> None:
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "First"},
        {"role": "assistant", "content": None, "tool_calls": []},
        {"role": "user", "content": [{"type": "text", "text": "Second"}]},
        {"role": "assistant", "content": "Well,"},
    ]
    assert parse_body(chat(messages=messages), "chat").prompt == "Second"
    assert parse_body(chat(messages=messages[:1]), "chat").prompt == "Be brief."


@pytest.mark.parametrize(
    ("prompt", "text", "tokens"),
    [
        ("four char", "four char", 3),
        ([1, 2, 3, 4], "", 4),
        (["one", "a longer one"], "one", 3),
        ([[1, 2], [3, 4, 5]], "", 3),
    ],
)
def test_prompts_of_text_completions(prompt: Any, text: str, tokens: int) -> None:
    body = json.dumps({"model": "m", "prompt": prompt}).encode()
    parsed = parse_body(body, "completions")
    assert (parsed.prompt, parsed.prompt_tokens) == (text, tokens)


TEXT_FIELD = {"name": "x", "schema": {"type": "object", "properties": {"text": {}}}}


@pytest.mark.parametrize(
    ("fields", "needs"),
    [
        ({}, []),
        ({"n": 1, "tools": [], "logprobs": False, "response_format": {"type": "text"}}, []),
        ({"n": None, "tools": None, "logprobs": None, "response_format": None}, []),
        ({"n": 2}, ["n"]),
        ({"tools": [{"type": "function"}]}, ["tools"]),
        ({"logprobs": True}, ["logprobs"]),
        ({"response_format": {"type": "json_object"}}, ["json"]),
        ({"response_format": {"type": "json_schema", "json_schema": TEXT_FIELD}}, ["json"]),
        ({"response_format": {"json_schema": None, "type": "text"}}, []),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]},
            ["images"],
        ),
        ({"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]}, ["images"]),
        (
            {
                "messages": [
                    {"role": "assistant", "content": [{"type": "thinking"}, {"type": "refusal"}]}
                ]
            },
            [],
        ),
    ],
)
def test_what_an_instance_must_be_able_to_do(fields: dict[str, Any], needs: list[str]) -> None:
    assert parse_body(chat(**fields), "chat").needs == capability_bits(needs)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"model": 3}, "model"),
        ({"model": ""}, "model"),
        ({"messages": []}, "messages"),
        ({"messages": "Hi"}, "messages"),
        ({"messages": [{"role": "user", "content": 3}]}, "messages"),
        ({"stream": "yes"}, "stream"),
        ({"response_format": "json"}, "response_format"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 2**31}, "max_tokens"),
        ({"max_completion_tokens": 1.5}, "max_completion_tokens"),
        ({"routebalance": 1}, "routebalance"),
        ({"routebalance": {"weight": 1}}, "routebalance"),
        ({"routebalance": {"weights": "fast"}}, "routebalance.weights"),
        (
            {"routebalance": {"weights": {"quality": 1, "cost": 1, "latency": 0}}},
            "routebalance.weights",
        ),
        ({"routebalance": {"max_usd": -1}}, "routebalance.max_usd"),
        ({"tokenrouter": 1}, "tokenrouter"),
        ({"tokenrouter": "only"}, "tokenrouter"),
        ({"tokenrouter": [{}]}, "tokenrouter"),
        ({"tokenrouter": False}, "tokenrouter"),
    ],
)
def test_wrong_fields_are_named(fields: dict[str, Any], param: str) -> None:
    assert refusal(chat(**fields)).param == param


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b'{"a": ' + b"[" * 100_000])
def test_what_is_no_json(body: bytes) -> None:
    assert refusal(body).code == "invalid_json"


@pytest.mark.parametrize("body", [b"[]", b"3", b"null", b'"x"', b"[" * 100_000])
def test_what_is_no_object(body: bytes) -> None:
    assert refusal(body).param == "body"


def test_what_is_missing() -> None:
    assert refusal(b'{"messages": []}').param == "model"
    assert refusal(b'{"model": "m"}').param == "messages"
    assert refusal(b'{"model": "\xff", "messages": []}').param == "model"
    assert refusal(b'{"model": "m"}', "completions").param == "prompt"


@given(text=st.text())
def test_tokens_are_guessed_for_any_text(text: str) -> None:
    assert 0 <= tokens_of(text) <= len(text.encode()) // 4 + 1


def test_the_raw_fields_are_encoded_again_as_they_were() -> None:
    fields = parse_body(chat(temperature=0.25), "chat").fields
    assert json.loads(msgspec.json.encode(fields)) == json.loads(chat(temperature=0.25))
