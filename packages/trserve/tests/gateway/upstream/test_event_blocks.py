"""Events on their way through: whole, in order, byte for byte, however they were cut."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trserve.gateway.upstream.event_blocks import MOST_HELD_BYTES, EventBlocks, NotEventsError

EVENTS = st.lists(
    st.tuples(
        st.sampled_from([b"data: ", b": ", b"event: x\ndata: ", b"data:"]),
        st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), max_size=12).map(
            str.encode
        ),
        st.sampled_from([b"\n\n", b"\r\n\r\n"]),
    ).map(b"".join),
    min_size=1,
    max_size=8,
)


def cut(data: bytes, at: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(index % (len(data) + 1) for index in at)})
    return [data[start:end] for start, end in pairwise(edges)]


@given(events=EVENTS, cuts=st.lists(st.integers(0, 10_000), max_size=10))
def test_whatever_the_cuts_whole_events_come_out_and_nothing_changes(
    events: list[bytes], cuts: list[int]
) -> None:
    blocks = EventBlocks()
    out = []
    for piece in cut(b"".join(events), cuts):
        out.append(blocks.push(piece))
        assert not out[-1] or out[-1].endswith((b"\n\n", b"\r\n\r\n"))
    assert b"".join(out) == b"".join(events)
    blocks.push(b"data: [DONE]\n\n")
    assert blocks.rest() == b""


@given(cuts=st.lists(st.integers(0, 10_000), max_size=6), tail=st.binary(min_size=1, max_size=20))
def test_half_an_event_is_held_back(cuts: list[int], tail: bytes) -> None:
    tail = b"data: " + tail.replace(b"\n", b".").replace(b"\r", b".")
    blocks = EventBlocks()
    out = b"".join(blocks.push(piece) for piece in cut(b"data: 1\n\n" + tail, cuts))
    assert out == b"data: 1\n\n"
    rest = b" [DONE]\n\n"
    assert blocks.push(rest) == tail + rest


@pytest.mark.parametrize(
    ("stream", "usage"),
    [
        (b'data: {"usage":{"prompt_tokens":3,"completion_tokens":5}}\n\n', (3, 5)),
        (b'data: {"usage":{"completion_tokens": 7, "prompt_tokens": 2}}\n\ndata: {}\n\n', (2, 7)),
        (
            (
                b'data: {"usage":{"prompt_tokens":1,"completion_tokens":1}}\n\n'
                b'data: {"usage":{"prompt_tokens":1,"completion_tokens":2}}\n\n'
            ),
            (1, 2),
        ),
        (b'data: {"usage":null}\n\n', None),
        (b"data: {}\n\n", None),
    ],
)
def test_the_last_usage_counts(stream: bytes, usage: tuple[int, int] | None) -> None:
    blocks = EventBlocks()
    for at in range(0, len(stream), 11):
        blocks.push(stream[at : at + 11])
    blocks.push(b"data: [DONE]\n\n")
    assert blocks.usage == usage


@pytest.mark.parametrize(
    ("event", "rest"),
    [
        (b"data: [DONE]\n\n", b""),
        (b"data: [DONE]\r\n\r\n", b""),
        (b"data: [DONE]", b"data: [DONE]"),
        (b"data:[DONE]\n", b"data:[DONE]\n"),
        (b'data: {"error":{"message":"no"}}\n\n', b""),
        (b'data: {"error": {"message":"no"}}\n\n', b""),
        (b'data: {"choices":[{"finish_reason":"stop"}]}\n\n', b""),
        (b'data: {"choices":[{"finish_reason":null}]}\n\n', None),
        (b'data: {"choices":[{"finish_reason":"stop"}]}\n\ndata: {"usa', None),
        (b'data: {"error":null,"choices":[]}\n\n', None),
        (b'data: {"content":"\\"error\\":{"}\n\n', None),
        (b'data: {"content":"[DONE]"}\n\n', None),
        (b'data: {"token":"error","logprob":-1}\n\n', None),
        (b"", None),
    ],
)
def test_what_ends_a_stream(event: bytes, rest: bytes | None) -> None:
    blocks = EventBlocks()
    blocks.push(event)
    assert blocks.rest() == rest


@pytest.mark.parametrize(
    ("error", "its_own"),
    [
        (b'{"message":"x","type":"server_error","code":null}', True),
        (b'{"message":"x","type":"InternalServerError","param":null,"code":500}', True),
        (b'{"code":503,"message":"x","type":"unavailable_error"}', True),
        (b'{"code": 500, "message": "x"}', True),
        (b'{"message":"x","type":"BadRequestError","code":400}', False),
        (b'{"message":"x","type":"invalid_request_error","code":"context_length_exceeded"}', False),
        (b'{"message":"\\"type\\":\\"server_error\\""}', False),
        (b'{"message":"x"}', False),
    ],
)
def test_whose_fault_an_error_event_is(error: bytes, its_own: bool) -> None:
    blocks = EventBlocks()
    blocks.push(b'data: {"type":"server_error","code":500,"error":' + error + b"}\n\n")
    assert blocks.server_failed == its_own


def test_what_is_no_event_stream_is_refused() -> None:
    with pytest.raises(NotEventsError):
        EventBlocks().push(b"<html><body>" + b"x" * 100)


def test_an_event_without_end_is_refused_in_time() -> None:
    blocks = EventBlocks()
    assert blocks.push(b"data: " + b"x" * (MOST_HELD_BYTES - 6)) == b""
    with pytest.raises(NotEventsError, match="more than"):
        blocks.push(b"x")
