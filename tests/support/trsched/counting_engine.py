"""An engine that only keeps sequences, and says so when it is misused."""

from __future__ import annotations

from collections.abc import Sequence

from trsched.engines.base import Capacity, EngineSpec, StepResult
from trsched.request import SamplingParams


class CountingEngine:
    """By sequence: tokens held, how many of them a step has run, the sampling it started with."""

    def __init__(self, sequences: int) -> None:
        self.spec = EngineSpec("counting", 100, "test", 64, 0, 1, frozenset())
        self.sequences = sequences
        self.held: dict[int, list[int]] = {}
        self.ran: dict[int, int] = {}
        self.sampling: dict[int, SamplingParams] = {}
        self._next = 0

    def start(self, token_ids: Sequence[int], sampling: SamplingParams) -> int:
        assert len(self.held) < self.sequences, "no free sequence"
        self._next += 1
        self.held[self._next] = list(token_ids)
        self.ran[self._next] = 0
        self.sampling[self._next] = sampling
        return self._next

    def append(self, seq: int, token_ids: Sequence[int]) -> None:
        self.held[seq].extend(token_ids)

    def run(self, seq: int) -> None:
        """What a step does to one sequence."""
        assert self.ran[seq] < len(self.held[seq]), "no token to run"
        self.ran[seq] = len(self.held[seq])

    def step(self, seqs: Sequence[int]) -> StepResult:
        raise NotImplementedError

    def truncate(self, seq: int, length: int) -> None:
        del self.held[seq][length:]
        self.ran[seq] = min(self.ran[seq], length)

    def release(self, seq: int) -> None:
        del self.held[seq]
        del self.ran[seq]
        del self.sampling[seq]

    def capacity(self) -> Capacity:
        tokens = sum(map(len, self.held.values()))
        return Capacity(self.sequences, len(self.held), self.sequences * 64, tokens)

    def close(self) -> None:
        pass
