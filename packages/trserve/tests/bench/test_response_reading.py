"""One response: content, tokens, how it ended; each told by what the server sent."""

from __future__ import annotations

import json
from typing import Any

import pytest

from packages.trserve.tests.bench.stream_server import chunk
from trserve.bench.client.failure import Failure
from trserve.bench.client.response_reading import ResponseReading

DEEP = '{"x":' + "[" * 100_000  # more than a parser's stack holds
USAGE = {"prompt_tokens": 5, "completion_tokens": 3}


def read(*events: Any, done: bool = True) -> ResponseReading:
    """One event a second, the first at 1."""
    reading = ResponseReading()
    now = 0.0
    for now, event in enumerate([*events, *(["[DONE]"] if done else [])], start=1):
        data = event if isinstance(event, str) else json.dumps(event)
        reading.received(f"data: {data}\n\n".encode(), now)
    reading.stream_ended(now + 1)
    return reading


def test_times_of_content() -> None:
    reading = read(
        chunk(""),  # the role's
        chunk("a"),
        chunk("b"),
        "",  # keeps the connection alive
        chunk("c"),
        chunk(finish="stop"),
        {"choices": [], "usage": USAGE},
    )
    assert reading.failure is None
    assert reading.content_at.tolist() == [2, 3, 5]
    assert reading.ended == 8
    assert reading.finish_reason == "stop"
    assert (reading.input_tokens, reading.output_tokens) == (5, 3)
    assert reading.tokens_from == "usage"


@pytest.mark.parametrize(
    ("events", "tokens", "counted_by"),
    [
        # at the end, by an event of its own or with the last content
        ([chunk("a"), chunk("b", finish="stop"), {"choices": [], "usage": USAGE}], 3, "usage"),
        ([chunk("a"), chunk("b", finish="stop", usage=USAGE)], 3, "usage"),
        # running counts: the last holds
        (
            [
                chunk("a", usage={"completion_tokens": 1}),
                chunk("b", usage={"completion_tokens": 4}),
                chunk(finish="stop", usage={"completion_tokens": 4}),
            ],
            4,
            "usage",
        ),
        # at the beginning: believed if it can be the whole
        ([chunk("", usage=USAGE), chunk("a"), chunk("b", finish="stop")], 3, "usage"),
        (
            [chunk("", usage={"prompt_tokens": 5, "completion_tokens": 0}), chunk("a"), chunk("b")],
            2,
            "chunks",
        ),
        ([chunk("a", usage={"completion_tokens": 1}), chunk("b"), chunk("c")], 3, "chunks"),
        # never
        ([chunk("a", usage=None), chunk("b"), chunk(finish="stop")], 2, "chunks"),
        ([chunk(finish="stop")], None, None),
    ],
)
def test_who_counts_tokens(events: list[Any], tokens: int | None, counted_by: str | None) -> None:
    reading = read(*events)
    assert reading.failure is None
    assert (reading.output_tokens, reading.tokens_from) == (tokens, counted_by)


@pytest.mark.parametrize(
    "delta",
    [
        {"reasoning_content": "hm"},
        {"reasoning": "hm"},
        {"tool_calls": [{"function": {"name": "f", "arguments": ""}}]},
    ],
)
def test_thinking_and_tools_are_content(delta: Any) -> None:
    reading = read({"choices": [{"delta": delta}]})
    assert reading.content_at.tolist() == [1]


def test_completions_and_several_choices() -> None:
    reading = read(
        {"choices": [{"index": 0, "text": "a"}, {"index": 1, "text": "b"}]},
        {"choices": [{"index": 1, "text": "", "finish_reason": "length"}]},
    )
    assert reading.content_at.tolist() == [1]
    assert (reading.output_tokens, reading.finish_reason) == (2, "length")
    assert reading.several_choices


def test_one_choice_is_not_several() -> None:
    reading = read(
        {"choices": [{"index": 0, "text": "a"}]},
        {"choices": [{"text": "b"}]},
        {"choices": [{"index": None, "text": "c"}]},
        {"choices": [{"index": 1, "text": "", "finish_reason": "length"}]},
    )
    assert len(reading.content_at) == 3
    assert not reading.several_choices


def test_streams_that_are_unusual_but_whole() -> None:
    reading = read(
        {"choices": None},
        chunk("a"),
        '{"choices": [{"delta": {"content": "\\uD83D"}}]}',  # half of a pair
        '{"choices": [{"delta": {"content": "\\ude00"}, "finish_reason": "stop"}]}',
        {"choices": None, "usage": {"prompt_tokens": 5.0, "completion_tokens": 3.0}},
    )
    assert reading.failure is None
    assert reading.content_at.tolist() == [2, 3, 4]
    assert (reading.input_tokens, reading.output_tokens) == (5, 3)
    assert isinstance(reading.output_tokens, int)
    assert read('{"error": "half \\ud83d"}').failure == Failure("error_event", "half \ufffd")


def test_an_end_without_done() -> None:
    reading = read(chunk("a"), chunk(finish="stop"), done=False)
    assert (reading.failure, reading.ended) == (None, 3)


@pytest.mark.parametrize(
    ("events", "kind", "message"),
    [
        ([chunk("a")], "broken_stream", "ended before the response did"),
        ([], "broken_stream", "ended before the response did"),
        ([chunk("a"), "{half"], "broken_stream", "'{half'"),
        ([chunk("a"), "[1]"], "broken_stream", "Expected `object`"),
        ([chunk("a"), DEEP], "broken_stream", "nested too deeply"),
        ([chunk("a"), {"error": {"message": "out of memory"}}], "error_event", "out of memory"),
        ([{"error": "no"}], "error_event", "no"),
        ([{"object": "error", "message": "old style"}], "error_event", "old style"),
    ],
)
def test_failures(events: list[Any], kind: str, message: str) -> None:
    reading = read(*events, done=False)
    assert reading.failure is not None
    assert reading.failure.kind == kind
    assert message in reading.failure.message
    assert reading.ended is None


@pytest.mark.parametrize("said", ['{"message": "gone"}', "gone", '{"error": {"message": "gone"}}'])
def test_an_event_by_the_name_of_error(said: str) -> None:
    reading = ResponseReading()
    first = json.dumps(chunk("a", finish="stop"))
    stream = f"data: {first}\n\nevent: error\ndata: {said}\n\ndata: [DONE]\n\n"
    reading.received(stream.encode(), 1)
    reading.stream_ended(2)
    assert reading.failure is not None
    assert reading.failure.kind == "error_event"
    assert "gone" in reading.failure.message
    assert reading.ended is None


def test_nothing_counts_after_the_end() -> None:
    reading = read(chunk("a", finish="stop"), "[DONE]", chunk("b"), "{half", done=False)
    assert reading.failure is None
    assert (reading.content_at.tolist(), reading.ended) == ([1], 2)


def whole(document: Any) -> ResponseReading:
    reading = ResponseReading()
    reading.whole_body(
        document if isinstance(document, bytes) else json.dumps(document).encode(), 4
    )
    return reading


def test_a_whole_response() -> None:
    choice = {"message": {"content": "abc"}, "finish_reason": "stop"}
    reading = whole({"choices": [choice], "usage": USAGE})
    assert (reading.failure, reading.ended, reading.finish_reason) == (None, 4, "stop")
    assert (reading.output_tokens, reading.tokens_from) == (3, "usage")
    assert not reading.content_at
    assert whole({"choices": [choice]}).output_tokens is None


@pytest.mark.parametrize(
    ("document", "kind"),
    [
        (b"<html>", "broken_stream"),
        (DEEP.encode(), "broken_stream"),
        ({}, "broken_stream"),
        ({"choices": []}, "broken_stream"),
        ({"error": {"message": "no"}}, "error_event"),
    ],
)
def test_a_whole_response_that_is_none(document: Any, kind: str) -> None:
    reading = whole(document)
    assert reading.failure is not None
    assert reading.failure.kind == kind
