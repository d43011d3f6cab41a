"""Records as they lie in a `PeerRing`, the same in process, in shared memory and on a network.

Layout, little-endian. Byte 0 is the kind. A hand-off is hot and has a fixed header, followed by its
tokens as int32 and, if there are any, extras in MessagePack; all else is one MessagePack object.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
import numpy as np

from trrouters import PeerReq
from trrouters.peer_req import NO_EXTRAS, Extra
from trsched.errors import TrschedError
from trsched.wire.messages import Command, Report

VERSION = 2
_HANDOFF, _COMMAND, _REPORT = range(3)
_HEADER = struct.Struct("<BBHIqqqI")  # kind, version, flags, sender, rid, loc, sent_ns, token count
_FINISHED, _EXTRAS = 1, 2
_ARRAY = 1


class CodecError(TrschedError):
    """A record that this version cannot read."""


class HandOff(NamedTuple):
    """A received PeerReq.

    sender: subserver index, or GROUP.
    sent_ns: monotonic clock at the decision.
    """

    peer_req: PeerReq
    sender: int
    sent_ns: int


GROUP = 0xFFFF
"""Sender of hand-offs made by the group itself, when it moves requests of a dead subserver."""


def _encode_array(value: Any) -> msgspec.msgpack.Ext:
    if isinstance(value, np.ndarray) and value.dtype == np.float32 and value.ndim == 1:
        return msgspec.msgpack.Ext(_ARRAY, value.tobytes())
    raise CodecError(
        f"extras may hold scalars and one-dimensional float32 arrays, not {type(value).__name__}"
    )


def _decode_array(code: int, data: memoryview) -> Any:
    if code != _ARRAY or len(data) % 4:
        raise CodecError(f"unknown extension {code} of {len(data)} bytes")
    return np.frombuffer(data, dtype=np.float32)


_extras_encoder = msgspec.msgpack.Encoder(enc_hook=_encode_array)
_extras_decoder = msgspec.msgpack.Decoder(dict[str, Any], ext_hook=_decode_array)
_encoder = msgspec.msgpack.Encoder()
_command_decoder = msgspec.msgpack.Decoder(Command)
_report_decoder = msgspec.msgpack.Decoder(Report)


def encode_hand_off(req: PeerReq, sender: int, sent_ns: int) -> bytes:
    """The record of a hand-off. Raises CodecError for what a record cannot hold."""
    flags = _FINISHED if req.finished else 0
    extras = b""
    try:
        if req.extras:
            flags |= _EXTRAS
            extras = _extras_encoder.encode(dict(req.extras))
        count = len(req.token_ids)
        header = _HEADER.pack(_HANDOFF, VERSION, flags, sender, req.rid, req.loc, sent_ns, count)
        return header + struct.pack(f"<{count}i", *req.token_ids) + extras
    except (struct.error, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise CodecError(f"a hand-off cannot hold this: {error}") from error


def encode_command(command: Command) -> bytes:
    """The record of a command of the group to a subserver."""
    return bytes((_COMMAND, VERSION)) + _encoder.encode(command)


def encode_report(report: Report) -> bytes:
    """The record of a subserver's report to the group."""
    return bytes((_REPORT, VERSION)) + _encoder.encode(report)


def decode_inbound(record: bytes) -> HandOff | Command:
    """What a subserver finds in its ring. Raises CodecError."""
    _check(record)
    if record[0] == _HANDOFF:
        return _decode_hand_off(record)
    if record[0] != _COMMAND:
        raise CodecError(f"unexpected record kind {record[0]}")
    try:
        return _command_decoder.decode(memoryview(record)[2:])
    except msgspec.DecodeError as error:
        raise CodecError(str(error)) from error


def decode_report(record: bytes) -> Report:
    """What the group finds in its ring. Raises CodecError."""
    _check(record)
    if record[0] != _REPORT:
        raise CodecError(f"unexpected record kind {record[0]}")
    try:
        return _report_decoder.decode(memoryview(record)[2:])
    except msgspec.DecodeError as error:
        raise CodecError(str(error)) from error


def _check(record: bytes) -> None:
    if len(record) < 2 or record[1] != VERSION:
        version = record[1] if len(record) > 1 else None
        raise CodecError(f"record of layout version {version}, this is {VERSION}")


def _decode_hand_off(record: bytes) -> HandOff:
    try:
        _, _, flags, sender, rid, loc, sent_ns, count = _HEADER.unpack_from(record)
        tokens = list(struct.unpack_from(f"<{count}i", record, _HEADER.size))
        extras: Mapping[str, Extra] = NO_EXTRAS
        if flags & _EXTRAS:
            extras = _extras_decoder.decode(memoryview(record)[_HEADER.size + 4 * count :])
    except (struct.error, msgspec.DecodeError, RecursionError) as error:
        raise CodecError(f"broken hand-off record: {error}") from error
    return HandOff(PeerReq(rid, tokens, loc, bool(flags & _FINISHED), extras), sender, sent_ns)
