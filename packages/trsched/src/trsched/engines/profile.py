"""An engine without weights: step times from a latency profile, tokens from a seeded process.

For tuning, for tests of every schedule, and for models that a machine cannot run.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trrouters import LogitsOutput
from trrouters.draws import uniform
from trsched.engines.base import Capacity, EngineSpec, StepResult
from trsched.engines.clock import Clock, WallClock
from trsched.errors import EngineError
from trsched.plan.config import ProfileModel
from trsched.request import SamplingParams, TokenLogprobs

_PRINTABLE = range(32, 127)


def profile_token(model: ProfileModel, index: int, seed: int, position: int) -> int:
    """The token that model number `index` makes at `position` of the request with `seed`.

    Mostly printable bytes; 256, the end, with probability `eos_rate`.
    """
    u = uniform(seed, position, index)
    if u < model.eos_rate:
        return 256
    share = (u - model.eos_rate) / (1.0 - model.eos_rate)
    return _PRINTABLE[int(share * len(_PRINTABLE))]


class ProfileEngine:
    """One model of a latency profile.

    A step of n sequences that ingest k tokens takes step_ms[n] + (k - n) · extend_token_ms.
    """

    def __init__(
        self,
        model: ProfileModel,
        fingerprint: str,
        *,
        index: int,
        sequences: int,
        context: int,
        clock: Clock | None = None,
    ) -> None:
        self._model = model
        self._index = index
        self._context = context
        self._clock = clock or WallClock()
        self._held: list[list[int] | None] = [None] * sequences
        self._sampling = [SamplingParams()] * sequences
        self._ran = [0] * sequences
        self._free = list(range(sequences - 1, -1, -1))
        self.spec = EngineSpec(
            name=model.name,
            vocab_size=model.vocab_size,
            fingerprint=fingerprint,
            context_length=context,
            hidden_size=0,
            kv_bytes_per_token=model.kv_bytes_per_token,
            provides=frozenset(),
        )

    def start(self, token_ids: Sequence[int], sampling: SamplingParams) -> int:
        """A new sequence holding `token_ids`, not yet run. Raises EngineError when none is free."""
        if not self._free:
            raise EngineError(f"{self.spec.name}: no free sequence")
        seq = self._free.pop()
        self._held[seq] = list(token_ids)
        self._sampling[seq] = sampling
        self._ran[seq] = 0
        return seq

    def append(self, seq: int, token_ids: Sequence[int]) -> None:
        """Tokens that join the next forward, on the kept KV."""
        self._tokens(seq).extend(token_ids)

    def step(self, seqs: Sequence[int]) -> StepResult:
        """Run every token not yet run of `seqs` and sample one token each."""
        lengths = [len(self._tokens(seq)) for seq in seqs]
        ingested = sum(length - self._ran[seq] for seq, length in zip(seqs, lengths, strict=True))
        latencies = self._model.step_ms
        step_ms = latencies[min(len(seqs), len(latencies)) - 1]
        duration = (step_ms + (ingested - len(seqs)) * self._model.extend_token_ms) * 1e-3
        self._clock.sleep(duration)
        sampled = np.empty(len(seqs), dtype=np.int64)
        logprobs: list[TokenLogprobs | None] = []
        for row, (seq, length) in enumerate(zip(seqs, lengths, strict=True)):
            if length == self._ran[seq]:
                raise EngineError(f"{self.spec.name}: sequence {seq} has no token to run")
            if length > self._context:
                raise EngineError(f"{self.spec.name}: sequence {seq} is longer than the context")
            self._ran[seq] = length
            sampling = self._sampling[seq]
            sampled[row] = profile_token(self._model, self._index, sampling.seed, length)
            logprobs.append(None if sampling.logprobs is None else TokenLogprobs(0.0, []))
        return StepResult(list(seqs), sampled, sampled, LogitsOutput(), logprobs, duration)

    def truncate(self, seq: int, length: int) -> None:
        """Keep the first `length` tokens."""
        del self._tokens(seq)[length:]
        self._ran[seq] = min(self._ran[seq], length)

    def release(self, seq: int) -> None:
        """Forget the sequence and free its KV."""
        self._tokens(seq)
        self._held[seq] = None
        self._ran[seq] = 0
        self._free.append(seq)

    def capacity(self) -> Capacity:
        """What is there and what is used."""
        total = len(self._held)
        return Capacity(total, total - len(self._free), total * self._context, sum(self._ran))

    def close(self) -> None:
        """Free everything; no call may follow."""

    def _tokens(self, seq: int) -> list[int]:
        held = self._held[seq]
        if held is None:
            raise EngineError(f"{self.spec.name}: sequence {seq} is not in use")
        return held
