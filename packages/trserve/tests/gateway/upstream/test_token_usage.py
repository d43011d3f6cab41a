"""`usage` of a stream reaches the client as it was sent, wherever it stands in it (13)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.gateway.upstream_answers import (
    DONE,
    chat_body,
    chat_chunk,
    event,
    streamed,
    usage,
    whole,
)

TEXT = [chat_chunk("Hel"), chat_chunk("lo"), chat_chunk("", finish="stop")]


def used(count: int, chunk: dict[str, Any]) -> dict[str, Any]:
    return {**chunk, "usage": usage(count)}


STREAMS = {
    "last": ([*TEXT, chat_chunk(None, usage=usage(7))], 7),
    "last, null before": (
        [*({**each, "usage": None} for each in TEXT), chat_chunk(None, usage=usage(7))],
        7,
    ),
    "first": ([chat_chunk(None, usage=usage(7)), *TEXT], 7),
    "on every chunk": ([used(at, each) for at, each in enumerate(TEXT, start=5)], 7),
    "with the finish": ([*TEXT[:-1], used(7, TEXT[-1])], 7),
    "absent": (TEXT, None),
    "with details": (
        [
            *TEXT,
            chat_chunk(
                None,
                usage={
                    "completion_tokens_details": {"reasoning_tokens": 99},
                    "completion_tokens": 7,
                    "prompt_tokens": 5,
                    "prompt_tokens_details": {"cached_tokens": 55},
                },
            ),
        ],
        7,
    ),
}


@pytest.mark.parametrize("name", STREAMS)
def test_the_stream_is_whole_and_its_tokens_are_counted(upstreams, gateways, name: str) -> None:
    chunks, tokens = STREAMS[name]
    sent = [*map(event, chunks), DONE]
    gateway = gateways(upstreams(streamed(sent)))
    with gateway.stream(stream_options={"include_usage": True}) as response:
        assert response.read() == b"".join(sent)
    gateway.wait_until_idle()
    counted = gateway.metric("trgateway_tokens_total", instance="a")
    assert counted == (len(sent) if tokens is None else tokens)


def test_the_official_client_sees_one_last_chunk_without_choices(upstreams, gateways) -> None:
    (server,) = upstreams(count=1)
    gateway = gateways([server])
    with gateway.openai() as client:
        asked = {"model": "auto", "messages": [{"role": "user", "content": "Hi"}], "stream": True}
        chunks = list(
            client.chat.completions.create(**asked, stream_options={"include_usage": True})
        )
        assert [chunk.usage is not None for chunk in chunks] == [False] * 3 + [True]
        assert chunks[-1].choices == []
        assert chunks[-1].usage.completion_tokens == 2
        assert all(chunk.usage is None for chunk in client.chat.completions.create(**asked))
    first, second = (exchange.json for exchange in server.exchanges)
    assert first["stream_options"] == {"include_usage": True}
    assert "stream_options" not in second


def test_of_a_whole_answer(upstreams, gateways) -> None:
    body = chat_body(tokens=42)
    gateway = gateways(upstreams(whole(body)))
    assert gateway.chat().content == body
    gateway.wait_until_idle()
    assert gateway.metric("trgateway_tokens_total", instance="a") == 42
