"""Records: what goes in comes out, and nothing but CodecError for what isn't one."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from trrouters import PeerReq
from trsched.request import SamplingParams, TokenLogprobs
from trsched.wire.codec import (
    GROUP,
    VERSION,
    CodecError,
    HandOff,
    decode_inbound,
    decode_report,
    encode_command,
    encode_hand_off,
    encode_report,
)
from trsched.wire.messages import (
    Admit,
    Command,
    Degraded,
    Died,
    PeerDown,
    Release,
    Report,
    RequestFailed,
    RouterFailed,
    StepEvents,
    Stop,
)

HANDLES = st.integers(0, (1 << 63) - 1)
TOKENS = st.lists(st.integers(-1, (1 << 31) - 1), max_size=40)
FLOATS = st.floats(allow_nan=False)
SCALARS = st.one_of(
    st.booleans(), st.integers(-(1 << 63), (1 << 64) - 1), FLOATS, st.text(max_size=20)
)
ARRAYS = hnp.arrays(np.float32, st.integers(0, 20), elements=st.floats(width=32))
EXTRAS = st.dictionaries(st.text(max_size=8), st.one_of(SCALARS, ARRAYS), max_size=4)
HAND_OFFS = st.builds(PeerReq, HANDLES, TOKENS, st.integers(0, 1 << 40), st.booleans(), EXTRAS)
SENDERS = st.one_of(st.integers(0, 15), st.just(GROUP))

SAMPLING = st.builds(
    SamplingParams,
    temperature=st.floats(0, 100),
    top_p=st.floats(0.01, 1),
    top_k=st.integers(0, (1 << 31) - 1),
    seed=st.integers(0, (1 << 64) - 1),
    logprobs=st.one_of(st.none(), st.integers(0, 20)),
)
COMMANDS = st.one_of(
    st.builds(
        Admit,
        HANDLES,
        st.integers(0, 9),
        TOKENS,
        SAMPLING,
        st.integers(1, 9999),
        TOKENS,
        threshold=st.one_of(st.none(), FLOATS),
        stays=st.booleans(),
    ),
    st.builds(Release, HANDLES),
    st.builds(PeerDown, st.integers(0, 9)),
    st.builds(Stop),
)
LOGPROBS = st.builds(
    TokenLogprobs, FLOATS, st.lists(st.tuples(st.integers(0, 9999), FLOATS), max_size=3)
)
REPORTS = st.one_of(
    st.builds(
        StepEvents,
        st.integers(0, 9),
        st.lists(HANDLES),
        TOKENS,
        TOKENS,
        TOKENS,
        TOKENS,
        TOKENS,
        st.dictionaries(st.integers(0, 30), LOGPROBS, max_size=3),
    ),
    st.builds(RequestFailed, HANDLES, st.text()),
    st.builds(Degraded, HANDLES),
    st.builds(RouterFailed, st.integers(0, 9), st.text()),
    st.builds(Died, st.integers(0, 9), st.text()),
)


def assert_same_extras(given_extras: Mapping[str, Any], decoded: Mapping[str, Any]) -> None:
    assert decoded.keys() == given_extras.keys()
    for key, value in given_extras.items():
        if isinstance(value, np.ndarray):
            assert decoded[key].dtype == np.float32
            np.testing.assert_array_equal(decoded[key], value)
        else:
            assert type(decoded[key]) is type(value)
            assert decoded[key] == value


@given(HAND_OFFS, SENDERS, st.integers(0, (1 << 63) - 1))
def test_hand_off_round_trip(req: PeerReq, sender: int, sent_ns: int) -> None:
    decoded = decode_inbound(encode_hand_off(req, sender, sent_ns))
    assert isinstance(decoded, HandOff)
    assert (decoded.sender, decoded.sent_ns) == (sender, sent_ns)
    got = decoded.peer_req
    assert (got.rid, list(got.token_ids), got.loc, got.finished) == (
        req.rid,
        list(req.token_ids),
        req.loc,
        req.finished,
    )
    assert_same_extras(req.extras, got.extras)


@given(COMMANDS)
def test_command_round_trip(command: Command) -> None:
    assert decode_inbound(encode_command(command)) == command


@given(REPORTS)
def test_report_round_trip(report: Report) -> None:
    assert decode_report(encode_report(report)) == report


def decode_or_refuse(record: bytes) -> None:
    for decode in (decode_inbound, decode_report):
        with suppress(CodecError):
            decode(record)


WHOLE = st.one_of(
    st.builds(encode_hand_off, HAND_OFFS, SENDERS, st.just(1)),
    st.builds(encode_command, COMMANDS),
    st.builds(encode_report, REPORTS),
)


@given(WHOLE, st.data())
def test_truncated(record: bytes, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(record) - 1))
    decode_or_refuse(record[:cut])


@given(WHOLE, st.data())
def test_one_byte_changed(record: bytes, data: st.DataObject) -> None:
    changed = bytearray(record)
    changed[data.draw(st.integers(0, len(record) - 1))] ^= data.draw(st.integers(1, 255))
    decode_or_refuse(bytes(changed))


@given(st.one_of(st.binary(), st.binary().map(lambda tail: bytes((0, VERSION, 2)) + tail)))
def test_garbage(record: bytes) -> None:
    decode_or_refuse(record)


EXTRAS_AT = struct.calcsize("<BBHIqqqI")


@pytest.mark.parametrize(
    "extras",
    [
        msgspec.msgpack.encode({"a": msgspec.msgpack.Ext(1, b"abc")}),  # no whole float32
        msgspec.msgpack.encode({"a": msgspec.msgpack.Ext(9, b"abcd")}),
        msgspec.msgpack.encode([1, 2]),
        b"\x81\xa1a\xa1\xff",  # not UTF-8
        b"\x81\xa1a" + b"\x91" * 100_000,  # nested too deep
        b"",
    ],
)
def test_broken_extras(extras: bytes) -> None:
    record = bytearray(encode_hand_off(PeerReq(1, [], 1, extras={"a": 1}), 0, 0))
    record[EXTRAS_AT:] = extras
    with pytest.raises(CodecError):
        decode_inbound(bytes(record))


@given(WHOLE, st.integers(0, 255).filter(lambda version: version != VERSION))
def test_foreign_version_is_named(record: bytes, version: int) -> None:
    foreign = bytes((record[0], version)) + record[2:]
    for decode in (decode_inbound, decode_report):
        with pytest.raises(CodecError, match=f"version {version}, this is {VERSION}"):
            decode(foreign)


def test_a_record_in_the_wrong_ring() -> None:
    with pytest.raises(CodecError, match="kind"):
        decode_inbound(encode_report(RequestFailed(1, "x")))
    with pytest.raises(CodecError, match="kind"):
        decode_report(encode_command(Stop()))


@pytest.mark.parametrize(
    "extras",
    [
        {"a": np.zeros((2, 2), np.float32)},
        {"a": np.zeros(2, np.float64)},
        {"a": object()},
        {"a": 1 << 70},
    ],
)
def test_extras_that_no_record_holds(extras: Any) -> None:
    with pytest.raises(CodecError):
        encode_hand_off(PeerReq(1, [1], 1, extras=extras), 0, 0)


@pytest.mark.parametrize("tokens", [[1 << 31], [1.5], ["a"], [None]])
def test_tokens_that_no_record_holds(tokens: Any) -> None:
    with pytest.raises(CodecError):
        encode_hand_off(PeerReq(1, tokens, 1), 0, 0)
