from __future__ import annotations

import json
import threading

import httpx
import pytest
from openai.types.chat import ChatCompletionChunk as OpenAIChunk

from tests.support.trserve.demo_server import Demo, demo_server
from tests.support.trserve.scripted_group import Reply
from tests.support.trserve.sse_events import delta_text, sse_events
from trsched.request import FinalEvent
from trserve.openai.schemas.chat_response import ChatCompletion, ChatCompletionChunk
from trserve.openai.schemas.completion_response import Completion
from trserve.openai.sse import json_text


def test_plain_stream_is_plain_openai(demo: Demo) -> None:
    demo.group.reply = lambda request: Reply("hey")
    answer = demo.chat(stream=True)
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert answer.headers["cache-control"] == "no-cache"
    first, *texts, last = sse_events(answer.text)
    assert first["choices"] == [
        {
            "index": 0,
            "delta": {"role": "assistant", "content": ""},
            "logprobs": None,
            "finish_reason": None,
        }
    ]
    assert {tuple(text["choices"][0]["delta"]) for text in texts} == {("content",)}
    assert delta_text(texts) == "hey"
    assert last["choices"] == [{"index": 0, "delta": {}, "logprobs": None, "finish_reason": "stop"}]
    for event in (first, *texts, last):
        assert "usage" not in event
        assert event["object"] == "chat.completion.chunk"
        assert event["system_fingerprint"] == demo.served.fingerprint
        OpenAIChunk.model_validate(event)
        ChatCompletionChunk.model_validate(event)


def test_tokens_of_one_turn_are_one_chunk_and_none_waits(own_demo: Demo) -> None:
    own_demo.group.reply = lambda request: Reply("abcdef", burst=3, hold_after=3)
    body = {"model": "demo", "prompt": "x", "stream": True}
    with own_demo.http.stream("POST", "/v1/completions", json=body) as answer:
        parts = answer.iter_text()
        text = next(parts)
        while '"text":"abc"' not in text:
            text += next(parts)
        own_demo.group.go_on()
        text += "".join(parts)
    assert [event["choices"][0]["text"] for event in sse_events(text)] == ["abc", "def", ""]


def test_usage_comes_once_and_last(demo: Demo) -> None:
    answer = demo.chat(stream=True, stream_options={"include_usage": True}, n=2)
    *events, last = sse_events(answer.text)
    assert all(event["usage"] is None for event in events)
    assert all(len(event["choices"]) == 1 for event in events)
    assert last["choices"] == []
    assert last["usage"] == demo.chat(n=2).json()["usage"]


def test_model_of_every_token(demo: Demo) -> None:
    ids = [*"né".encode(), 256]
    demo.group.reply = lambda request: Reply("né")
    choice = demo.chat(tokenrouter={"model_per_token": True}).json()["choices"][0]
    assert choice["tokenrouter"] == {"models": [0, 1, 0, 1], "token_ids": ids}
    models, tokens = [], []
    events = sse_events(demo.chat(tokenrouter={"model_per_token": True}, stream=True).text)
    for event in events:
        extension = event["choices"][0].get("tokenrouter", {})
        models += extension.get("models", [])
        tokens += extension.get("token_ids", [])
    assert (models, tokens) == ([0, 1, 0, 1], ids)
    assert delta_text(events) == "né"


@pytest.mark.parametrize("stream", [False, True])
def test_chat_logprobs(demo: Demo, stream: bool) -> None:
    demo.group.reply = lambda request: Reply("é!")
    answer = demo.chat(logprobs=True, top_logprobs=1, stream=stream)
    if stream:
        content = [
            entry
            for event in sse_events(answer.text)
            if event["choices"][0]["logprobs"]
            for entry in event["choices"][0]["logprobs"]["content"]
        ]
    else:
        content = answer.json()["choices"][0]["logprobs"]["content"]
    assert [entry["token"] for entry in content] == ["bytes:\\xc3", "bytes:\\xa9", "!", ""]
    assert b"".join(bytes(entry["bytes"]) for entry in content) == "é!".encode()
    assert content[2]["top_logprobs"][0]["token"] == "!"
    assert content[2]["logprob"] == pytest.approx(-0.693147, abs=1e-5)


def test_degraded_is_told(demo: Demo) -> None:
    final = FinalEvent(reason="stop", degraded=True)
    demo.group.reply = lambda request: Reply("a", final=final)
    answer = demo.chat()
    assert answer.headers["x-tokenrouter-degraded"] == "true"
    assert answer.json()["choices"][0]["tokenrouter"] == {"degraded": True}
    *_, last = sse_events(demo.chat(stream=True).text)
    assert last["choices"][0]["tokenrouter"] == {"degraded": True}


def test_whole_responses_are_as_documented(demo: Demo) -> None:
    ask = {"n": 2, "tokenrouter": {"model_per_token": True}}
    answer = demo.chat(logprobs=True, **ask).json()
    assert ChatCompletion.model_validate(answer).model_dump(mode="json") == answer
    answer = demo.complete(logprobs=1, **ask).json()
    assert Completion.model_validate(answer).model_dump(mode="json") == answer


def test_line_ends_of_all_kinds_are_escaped() -> None:
    text = 'a\u2028b\u2029c\x85d\n\r\x0b\x0c\x1c"\\é'
    encoded = json_text(text)
    assert json.loads(encoded) == text
    assert len(encoded.decode().splitlines()) == 1


def test_many_at_once_do_not_mix() -> None:
    texts = {f"{i}": f"answer {i} äöü" for i in range(32)}
    with demo_server() as demo:
        demo.group.reply = lambda request: Reply(texts[bytes(request.prompt_ids).decode()])
        got: dict[str, str] = {}

        def ask(prompt: str) -> None:
            body = {"model": "demo", "prompt": prompt, "stream": True, "max_tokens": 100}
            answer = httpx.post(f"{demo.url}/v1/completions", json=body, timeout=30)
            got[prompt] = "".join(e["choices"][0]["text"] for e in sse_events(answer.text))

        threads = [threading.Thread(target=ask, args=(prompt,)) for prompt in texts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert got == texts
        assert demo.group.status().active == 0
