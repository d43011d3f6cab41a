from __future__ import annotations

import openai
import pytest

from tests.support.trserve.demo_server import Demo
from tests.support.trserve.scripted_group import Reply
from tests.support.trserve.sse_events import delta_text, sse_events

MESSAGES = [{"role": "user", "content": "Hi"}]
TEXT = "Grüße, 世界! 😀"


def test_plain_answer(demo: Demo) -> None:
    answer = demo.client.chat.completions.create(model="demo", messages=MESSAGES)
    assert answer.choices[0].message.content == TEXT
    assert answer.choices[0].finish_reason == "stop"
    assert answer.choices[0].logprobs is None
    assert answer.id.startswith("chatcmpl-")
    assert answer.object == "chat.completion"
    assert answer.model == "demo"
    assert answer.system_fingerprint.startswith("fp_")
    tokens = len(TEXT.encode()) + 1
    assert answer.usage.prompt_tokens == len("user: Hi\nassistant:")
    assert answer.usage.completion_tokens == tokens
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + tokens
    assert answer.usage.model_extra["tokenrouter"] == {
        "completion_tokens_by_model": {"small": (tokens + 1) // 2, "large": tokens // 2},
        "handoffs": 3,
    }
    raw = demo.chat().json()
    assert "tokenrouter" not in raw
    assert "tokenrouter" not in raw["choices"][0]


def test_streamed_answer_is_the_same(demo: Demo) -> None:
    stream = demo.client.chat.completions.create(
        model="demo", messages=MESSAGES, stream=True, stream_options={"include_usage": True}
    )
    *chunks, last = list(stream)
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == TEXT
    assert [c.choices[0].finish_reason for c in chunks] == [None] * (len(chunks) - 1) + ["stop"]
    assert all(chunk.usage is None for chunk in chunks)
    assert last.choices == []
    assert last.usage.completion_tokens == len(TEXT.encode()) + 1
    assert {chunk.id for chunk in [*chunks, last]} == {last.id}


@pytest.mark.parametrize("burst", [1, 2, 3, 7, 100])
def test_characters_are_never_broken(demo: Demo, burst: int) -> None:
    text = "é世😀\u2028\x85👩‍👩‍👧‍👦ß" * 5
    demo.group.reply = lambda request: Reply(text, burst=burst)
    stream = demo.client.chat.completions.create(model="demo", messages=MESSAGES, stream=True)
    parts = [chunk.choices[0].delta.content or "" for chunk in stream]
    assert "".join(parts) == text
    assert not any("\ufffd" in part for part in parts)


def test_bytes_that_are_no_text(demo: Demo) -> None:
    demo.group.reply = lambda request: Reply(b"ab\xff\xfec\xe4\xb8")
    answer = demo.client.chat.completions.create(model="demo", messages=MESSAGES)
    assert answer.choices[0].message.content == "ab\ufffd\ufffdc\ufffd"
    stream = demo.client.chat.completions.create(model="demo", messages=MESSAGES, stream=True)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == "ab��c�"


def test_sampling_fields_reach_the_group(demo: Demo) -> None:
    demo.client.chat.completions.create(
        model="demo",
        messages=MESSAGES,
        temperature=0.5,
        top_p=0.9,
        seed=-1,
        n=3,
        max_completion_tokens=4,
        logprobs=True,
        top_logprobs=2,
        user="me",
        metadata={"a": "b"},
        store=False,
        extra_body={"top_k": 7, "tokenrouter": {"timeout_s": 30}},
    )
    first, second, third = demo.group.requests
    assert first.sampling.temperature == 0.5
    assert first.sampling.top_p == 0.9
    assert first.sampling.top_k == 7
    assert first.sampling.logprobs == 2
    assert first.max_tokens == 4
    assert first.timeout_s == 30
    assert first.stop_token_ids == demo.group.vocabulary.stop_ids
    assert [r.sampling.seed for r in (first, second, third)] == [(1 << 64) - 1, 0, 1]


def test_defaults(demo: Demo) -> None:
    demo.chat()
    demo.chat(temperature=None, top_p=None, n=None, seed=None, stop=None, max_tokens=None)
    first, second = demo.group.requests
    assert (first.sampling.temperature, first.sampling.top_p, first.sampling.top_k) == (1, 1, 0)
    assert second.sampling.temperature == 1
    assert first.sampling.seed != second.sampling.seed
    assert first.max_tokens == 512 - len(first.prompt_ids)


def test_several_choices(demo: Demo) -> None:
    answer = demo.client.chat.completions.create(model="demo", messages=MESSAGES, n=3)
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    assert {choice.message.content for choice in answer.choices} == {TEXT}
    assert answer.usage.completion_tokens == 3 * (len(TEXT.encode()) + 1)
    assert answer.usage.prompt_tokens == len("user: Hi\nassistant:")
    stream = demo.client.chat.completions.create(model="demo", messages=MESSAGES, n=3, stream=True)
    texts, ends = ["", "", ""], [0, 0, 0]
    for chunk in stream:
        (choice,) = chunk.choices
        texts[choice.index] += choice.delta.content or ""
        ends[choice.index] += choice.finish_reason == "stop"
    assert texts == [TEXT] * 3
    assert ends == [1, 1, 1]


def test_length(demo: Demo) -> None:
    answer = demo.client.chat.completions.create(model="demo", messages=MESSAGES, max_tokens=4)
    assert answer.choices[0].message.content == "Grü"
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage.completion_tokens == 4


@pytest.mark.parametrize("stream", [False, True])
def test_stop_strings_over_token_boundaries(demo: Demo, stream: bool) -> None:
    demo.group.reply = lambda request: Reply("one two STOP three", burst=3, hold_after=9)
    answer = demo.chat(stop=["nothing", "o S"], stream=stream, max_tokens=300)
    if stream:
        text = delta_text(sse_events(answer.text))
    else:
        text = answer.json()["choices"][0]["message"]["content"]
        assert answer.json()["choices"][0]["finish_reason"] == "stop"
        assert answer.json()["usage"]["completion_tokens"] == len("one two S")
    assert text == "one tw"
    assert demo.group.aborts == ["stop"]


def test_a_half_stop_string_at_the_end_is_text(demo: Demo) -> None:
    demo.group.reply = lambda request: Reply("the end of ST")
    answer = demo.chat(stop="STOP").json()
    assert answer["choices"][0]["message"]["content"] == "the end of ST"


def test_content_parts_and_roles(demo: Demo) -> None:
    demo.chat(
        messages=[
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "a"}] * 2},
            {"role": "assistant", "content": "b", "refusal": None, "tool_calls": None},
            {"role": "user", "content": "c", "name": "Ann"},
        ]
    )
    prompt = bytes(demo.group.requests[0].prompt_ids).decode()
    assert prompt == "system: Be brief.\nuser: a\na\nassistant: b\nuser: c\nassistant:"


def test_errors_have_openai_types(demo: Demo) -> None:
    with pytest.raises(openai.NotFoundError) as not_found:
        demo.client.chat.completions.create(model="gpt-5", messages=MESSAGES)
    assert not_found.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as bad:
        demo.client.chat.completions.create(model="demo", messages=[], temperature=1)
    assert bad.value.param == "messages"
