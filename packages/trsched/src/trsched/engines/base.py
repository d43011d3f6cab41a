"""The engine protocol: weights, KV memory and the forward step of one model, nothing else.

An engine keeps a sequence's KV until it is told to release it; a request that waits elsewhere
simply isn't stepped, and resumes when tokens are appended and it is stepped again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from trrouters import LogitsOutput, Need
from trrouters.route_result import Tensor
from trsched.request import SamplingParams, TokenLogprobs


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """What an engine is.

    fingerprint: of tokenizer and vocabulary; all models of a group share it.
    context_length: tokens a sequence can hold at most.
    provides: outputs it can show a router.
    """

    name: str
    vocab_size: int
    fingerprint: str
    context_length: int
    hidden_size: int
    kv_bytes_per_token: int
    provides: frozenset[Need]


@dataclass(frozen=True, slots=True)
class Capacity:
    """KV memory of an engine: sequences, and tokens over all of them."""

    sequences: int
    sequences_used: int
    tokens: int
    tokens_used: int


@dataclass(frozen=True, slots=True)
class StepResult:
    """Outputs of one step.

    seqs: the sequences that sampled a token; one still ingesting a long prompt is absent and wants
        another step.
    sampled: `[len(seqs)]` int64.
    next_token_ids: the same for the router, on the engine's device.
    logprobs: per sequence, None where not asked for.
    duration: seconds the step took (virtual seconds under a virtual clock).
    """

    seqs: Sequence[int]
    sampled: NDArray[np.int64]
    next_token_ids: Tensor | NDArray[np.int64]
    logits_output: LogitsOutput
    logprobs: Sequence[TokenLogprobs | None]
    duration: float


class Engine(Protocol):
    """One model. All calls come from one thread, the subserver's.

    The same calls get the same sequences: the further ranks of a model only repeat the first one's.
    """

    spec: EngineSpec

    def start(self, token_ids: Sequence[int], sampling: SamplingParams) -> int:
        """A new sequence holding `token_ids`, not yet run. Raises EngineError when none is free."""

    def append(self, seq: int, token_ids: Sequence[int]) -> None:
        """Tokens committed here or elsewhere: they join the next forward on the kept KV."""

    def step(self, seqs: Sequence[int]) -> StepResult:
        """Run every token not yet run of `seqs` (long prompts in parts) and sample one token each.

        A sampled token isn't part of its sequence until it is appended. Raises EngineError.
        """

    def truncate(self, seq: int, length: int) -> None:
        """Keep the first `length` tokens."""

    def release(self, seq: int) -> None:
        """Forget the sequence and free its KV."""

    def capacity(self) -> Capacity:
        """What is there and what is used."""

    def close(self) -> None:
        """Free everything; no call may follow."""
