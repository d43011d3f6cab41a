"""Several engines that hold one model together: the first one's calls are repeated by the others.

Each rank of a tensor-parallel model is a process with an engine of its own. Rank 0 belongs to the
subserver; the others, its followers, make the same calls in the same order, so that all come to the
same forward with the same sequences in it, where the engines exchange what they do among
themselves.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from trcore import PeerRing
from trsched.engines.base import Capacity, Engine, StepResult
from trsched.errors import EngineError
from trsched.request import SamplingParams
from trsched.wire.patient_push import PATIENCE_S, push_patiently, takes_nothing

_MOST_TOKENS_HELD_BACK = 1 << 13


class StartCall(msgspec.Struct, frozen=True, array_like=True, tag="start"):
    """seq: the sequence that rank 0 got."""

    token_ids: list[int]
    sampling: SamplingParams
    seq: int


class AppendCall(msgspec.Struct, frozen=True, array_like=True, tag="append"):
    """As in `Engine`."""

    seq: int
    token_ids: list[int]


class TruncateCall(msgspec.Struct, frozen=True, array_like=True, tag="truncate"):
    """As in `Engine`."""

    seq: int
    length: int


class ReleaseCall(msgspec.Struct, frozen=True, array_like=True, tag="release"):
    """As in `Engine`."""

    seq: int


class StepCall(msgspec.Struct, frozen=True, array_like=True, tag="step"):
    """As in `Engine`."""

    seqs: list[int]


class CloseCall(msgspec.Struct, frozen=True, array_like=True, tag="close"):
    """As in `Engine`; the last call."""


Call = StartCall | AppendCall | TruncateCall | ReleaseCall | StepCall | CloseCall

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[Call])


class LeaderEngine:
    """Rank 0's engine, an `Engine` like any other to its subserver.

    followers: a ring for each other rank, read by `follow`.

    Only a step can't go ahead without the others. So calls before it wait for it and travel in its
    record, which is sent before rank 0 steps itself; a long prompt goes out at once, for the others
    to take in meanwhile.
    """

    def __init__(
        self, engine: Engine, followers: Sequence[PeerRing], patience_s: float = PATIENCE_S
    ) -> None:
        self.spec = engine.spec
        self._engine = engine
        self._followers = followers
        self._patience_s = patience_s
        self._held_back: list[Call] = []
        self._tokens_held_back = 0

    def start(self, token_ids: Sequence[int], sampling: SamplingParams) -> int:
        """A new sequence holding `token_ids`, not yet run. Raises EngineError when none is free."""
        seq = self._engine.start(token_ids, sampling)
        self._hold_back(StartCall(list(token_ids), sampling, seq), len(token_ids))
        return seq

    def append(self, seq: int, token_ids: Sequence[int]) -> None:
        """Tokens that join the next forward, on the kept KV."""
        self._engine.append(seq, token_ids)
        self._hold_back(AppendCall(seq, list(token_ids)), len(token_ids))

    def step(self, seqs: Sequence[int]) -> StepResult:
        """Run every token not yet run of `seqs` and sample one token each.

        Also raises EngineError when a follower takes no calls any more.
        """
        self._held_back.append(StepCall(list(seqs)))
        self._send()
        return self._engine.step(seqs)

    def truncate(self, seq: int, length: int) -> None:
        """Keep the first `length` tokens."""
        self._engine.truncate(seq, length)
        self._hold_back(TruncateCall(seq, length))

    def release(self, seq: int) -> None:
        """Forget the sequence and free its KV."""
        self._engine.release(seq)
        self._hold_back(ReleaseCall(seq))

    def capacity(self) -> Capacity:
        """What is there and what is used."""
        return self._engine.capacity()

    def close(self) -> None:
        """Free everything; no call may follow."""
        try:
            self._held_back.append(CloseCall())
            self._send()
        finally:
            self._engine.close()

    def _hold_back(self, call: Call, tokens: int = 0) -> None:
        self._held_back.append(call)
        self._tokens_held_back += tokens
        if self._tokens_held_back > _MOST_TOKENS_HELD_BACK:
            self._send()

    def _send(self) -> None:
        record = _encoder.encode(self._held_back)
        self._held_back.clear()
        self._tokens_held_back = 0
        for rank, ring in enumerate(self._followers, start=1):
            if not push_patiently(ring, record, self._patience_s):
                raise EngineError(f"rank {rank}: {takes_nothing(self._patience_s)}")


def follow(engine: Engine, ring: PeerRing) -> None:
    """Make the leader's calls until it closes. Raises EngineError, also where ranks differ."""
    try:
        while True:
            for record in ring.drain():
                for call in _decoder.decode(record):
                    if isinstance(call, CloseCall):
                        return
                    _repeat(engine, call)
            ring.wait(None)
    finally:
        engine.close()


def _repeat(engine: Engine, call: Call) -> None:
    match call:
        case StartCall(token_ids, sampling, seq):
            own = engine.start(token_ids, sampling)
            if own != seq:
                raise EngineError(f"ranks differ: sequence {own} here is {seq} at rank 0")
        case AppendCall(seq, token_ids):
            engine.append(seq, token_ids)
        case TruncateCall(seq, length):
            engine.truncate(seq, length)
        case ReleaseCall(seq):
            engine.release(seq)
        case StepCall(seqs):
            engine.step(seqs)
