from __future__ import annotations

import pytest

from tests.support.trserve.demo_server import Demo
from tests.support.trserve.scripted_group import Reply
from tests.support.trserve.sse_events import sse_events


def prompts_seen(demo: Demo) -> list[bytes]:
    return [bytes(request.prompt_ids) for request in demo.group.requests]


@pytest.mark.parametrize(
    ("prompt", "seen"),
    [
        ("ab", [b"ab"]),
        (["ab", "c"], [b"ab", b"c"]),
        (["ab"], [b"ab"]),
        ([97, 98], [b"ab"]),
        ([[97], [98, 99]], [b"a", b"bc"]),
    ],
)
def test_prompts(demo: Demo, prompt: object, seen: list[bytes]) -> None:
    demo.group.reply = lambda request: Reply("é" + bytes(request.prompt_ids).decode())
    answer = demo.client.completions.create(model="demo", prompt=prompt, n=2)
    assert prompts_seen(demo) == [each for each in seen for _ in range(2)]
    texts = ["é" + each.decode() for each in seen for _ in range(2)]
    assert [choice.text for choice in answer.choices] == texts
    assert [choice.index for choice in answer.choices] == list(range(len(texts)))
    assert answer.object == "text_completion"
    assert answer.id.startswith("cmpl-")
    assert answer.usage.prompt_tokens == sum(map(len, seen))


def test_default_length_is_openais(demo: Demo) -> None:
    demo.complete()
    assert demo.group.requests[0].max_tokens == 16


def test_seeds_belong_to_the_choice_within_its_prompt(demo: Demo) -> None:
    demo.complete(prompt=["a", "b"], n=2, seed=5)
    assert [request.sampling.seed for request in demo.group.requests] == [5, 6, 5, 6]


def test_streamed(demo: Demo) -> None:
    demo.group.reply = lambda request: Reply("añb")
    stream = demo.client.completions.create(
        model="demo", prompt=["x", "y"], stream=True, stream_options={"include_usage": True}
    )
    *chunks, last = list(stream)
    texts = ["", ""]
    for chunk in chunks:
        texts[chunk.choices[0].index] += chunk.choices[0].text
    assert texts == ["añb", "añb"]
    assert [c.choices[0].finish_reason for c in chunks].count("stop") == 2
    assert last.choices == []
    assert last.usage.completion_tokens == 10


@pytest.mark.parametrize("stream", [False, True])
def test_logprobs(demo: Demo, stream: bool) -> None:
    demo.group.reply = lambda request: Reply("aéb")
    answer = demo.complete(logprobs=2, stream=stream)
    if stream:
        merged: dict[str, list[object]] = {}
        for event in sse_events(answer.text):
            for name, values in (event["choices"][0]["logprobs"] or {}).items():
                merged.setdefault(name, []).extend(values)
    else:
        merged = answer.json()["choices"][0]["logprobs"]
    assert merged["tokens"] == ["a", "bytes:\\xc3", "bytes:\\xa9", "b", ""]
    assert merged["text_offset"] == [0, 1, 1, 2, 3]
    assert merged["token_logprobs"] == pytest.approx([-0.6931471805599453] * 5)
    assert merged["top_logprobs"][0] == pytest.approx({"a": -0.693147, "b": -1.693147}, abs=1e-5)
