"""Events of a stream, however its bytes are cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trserve.bench.client.event_splitter import Event, EventSplitter


def events(*pieces: bytes) -> list[Event]:
    splitter = EventSplitter()
    found = [event for piece in pieces for event in splitter.feed(piece)]
    return found + splitter.end()


def data(*pieces: bytes) -> list[bytes]:
    return [event.data for event in events(*pieces)]


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b"data: a\n\ndata: b\n\n", [b"a", b"b"]),
        (b"data:a\n\ndata:  b\n\n", [b"a", b" b"]),  # one space belongs to the field
        (b"data: a\r\n\r\ndata: b\r\n\r\n", [b"a", b"b"]),
        (b"data: a\r\rdata: b\r\r", [b"a", b"b"]),
        (b"data: one\ndata: two\n\n", [b"one\ntwo"]),
        (b"event: x\nid: 1\nretry: 5\ndata: a\n\n", [b"a"]),
        (b": still there\n\ndata: a\n\n:\n\n", [b"a"]),
        (b"\n\n\ndata: a\n\n\n\n", [b"a"]),
        (b"data: a", [b"a"]),  # its end is missing
        (b"data:\n\n", [b""]),
        (b"", []),
    ],
)
def test_streams(stream: bytes, expected: list[bytes]) -> None:
    assert data(stream) == expected


def test_names() -> None:
    """Each holds for one event, with data or without."""
    stream = b"event: error\ndata: a\n\ndata: b\n\nevent:x\n\ndata: c\n\ndata: d\nevent: y\n\n"
    assert events(stream) == [(b"error", b"a"), (b"", b"b"), (b"", b"c"), (b"y", b"d")]


def test_an_event_comes_with_its_last_byte() -> None:
    splitter = EventSplitter()
    assert splitter.feed(b"data: a\r\n\r") == []
    assert splitter.feed(b"\ndata: b\n") == [(b"", b"a")]
    assert splitter.feed(b"\n") == [(b"", b"b")]
    assert splitter.end() == []


LINE = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\r\n"), max_size=12
).map(str.encode)


@st.composite
def streams(draw: st.DrawFn) -> tuple[bytes, list[tuple[bytes, bytes]]]:
    """A stream and its events, by construction; texts of any characters, several bytes long."""
    end = draw(st.sampled_from([b"\n", b"\r\n", b"\r"]))
    stream, expected = b"", []
    for lines in draw(st.lists(st.lists(LINE, min_size=1, max_size=3), max_size=6)):
        name = draw(st.sampled_from([b"", b"e"]))
        stream += draw(st.sampled_from([b"", b": ping" + end + end]))
        stream += b"event: " + name + end if name else b""
        stream += b"".join(b"data: " + line + end for line in lines) + end
        expected.append((name, b"\n".join(lines)))
    return stream, expected


@given(streams(), st.data())
def test_any_cut_gives_the_same_events(
    made: tuple[bytes, list[tuple[bytes, bytes]]], data: st.DataObject
) -> None:
    stream, expected = made
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=20)))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert events(*pieces) == expected
    assert events(*(bytes([byte]) for byte in stream)) == expected
