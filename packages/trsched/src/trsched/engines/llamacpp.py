"""The embedded engine: one llama.cpp context, many sequences, logits and states of one decode.

Every sequence has its own KV stream (`kv_unified=False`), and what it computes does not depend on
what else is in the batch (see `_open_context`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import pairwise
from pathlib import Path
from typing import Any

from trsched.models import llamacpp_library as library  # isort: skip  (before torch: see there)

import numpy as np
from numpy.typing import NDArray

from trrouters import LogitsOutput, Need
from trsched.engines.base import Capacity, EngineSpec, StepResult
from trsched.engines.embedding_table import EmbeddingTable
from trsched.engines.llama_batch import LlamaBatch
from trsched.engines.sampling import sample, token_logprobs
from trsched.engines.tensors import to_tensors
from trsched.errors import EngineError
from trsched.models.vocabulary import GgufVocabulary
from trsched.request import SamplingParams, TokenLogprobs

api = library.api


@dataclass(slots=True)
class _Sequence:
    """ran: tokens in the KV. waiting: tokens that join the next forward."""

    sampling: SamplingParams
    waiting: list[int]
    ran: int = 0
    free: bool = False


class LlamaCppEngine:
    """One GGUF model.

    needs: what the router reads.
    """

    def __init__(
        self,
        name: str,
        path: Path,
        vocabulary: GgufVocabulary,
        *,
        index: int,
        sequences: int,
        context: int,
        needs: frozenset[Need] = frozenset(),
        threads: int = 1,
        gpu_layers: int = 0,
        batch_tokens: int = 128,
    ) -> None:
        self._index = index
        self._context_length = context
        self._batch_tokens = max(batch_tokens, sequences)
        self._needs = needs
        self._hidden_wanted = "hidden_states" in needs
        self._embeddings = EmbeddingTable(path) if "token_embedding" in needs else None
        self._logit_columns = vocabulary.size + vocabulary.extra_rows
        self._tensor = to_tensors()
        self._model = library.load_model(path, gpu_layers=gpu_layers)
        self._context = self._open_context(sequences, context, threads)
        self._memory = api.llama_get_memory(self._context)
        self._batch = LlamaBatch(self._batch_tokens + sequences)
        self._sequences = [_Sequence(SamplingParams(), [], free=True) for _ in range(sequences)]
        self._free = list(range(sequences))  # a heap: low ids first, so that batches have few gaps
        self.spec = EngineSpec(
            name=name,
            vocab_size=vocabulary.size,
            fingerprint=vocabulary.fingerprint,
            context_length=context,
            hidden_size=vocabulary.hidden_size,
            kv_bytes_per_token=vocabulary.kv_bytes_per_token,
            provides=_ALWAYS | {"extra_logits"} if vocabulary.extra_rows else _ALWAYS,
        )

    def _open_context(self, sequences: int, context: int, threads: int) -> Any:
        params = api.llama_context_default_params()
        params.n_ctx = sequences * context
        params.n_seq_max = sequences
        params.n_batch = params.n_ubatch = self._batch_tokens + sequences  # with gaps filled
        params.n_threads = params.n_threads_batch = threads
        params.kv_unified = False
        # What a sequence computes must not depend on its batch: bit for bit, this holds for flash
        # attention on a BF16 cache. On F16 it takes other kernels for 64 prompt tokens at once, and
        # for one sequence alone from 257 tokens on. (BF16 weights break it, Q4_0 and Q8_0 don't.)
        params.flash_attn_type = api.LLAMA_FLASH_ATTN_TYPE_ENABLED
        params.type_k = params.type_v = _GGML_TYPE_BF16
        params.embeddings = False
        params.pooling_type = api.LLAMA_POOLING_TYPE_NONE
        params.no_perf = True
        pointer = api.llama_init_from_model(self._model.pointer, params)
        if not pointer:
            self._model.close()
            raise EngineError(
                f"llama.cpp could not make a context of {sequences} × {context} tokens: "
                f"{library.recent_log()}"
            )
        return pointer

    def start(self, token_ids: Sequence[int], sampling: SamplingParams) -> int:
        """A new sequence holding `token_ids`, not yet run. Raises EngineError when none is free."""
        if not self._free:
            raise EngineError(f"{self.spec.name}: no free sequence")
        seq = heappop(self._free)
        self._sequences[seq] = _Sequence(sampling, list(token_ids))
        return seq

    def append(self, seq: int, token_ids: Sequence[int]) -> None:
        """Tokens that join the next forward, on the kept KV."""
        self._sequences[seq].waiting.extend(token_ids)

    def step(self, seqs: Sequence[int]) -> StepResult:
        """Run every token not yet run of `seqs` and sample one token each.

        One `llama_decode`; two when hidden states are wanted and a prompt ends.
        """
        began = time.perf_counter()
        work = self._plan(seqs)
        if self._hidden_wanted:
            # With embeddings on, llama.cpp outputs every token of a batch: last tokens only, then.
            heads = [(seq, count - last, False) for seq, count, last in work if count > last]
            self._decode(heads, embeddings=False)
            work = [(seq, 1, True) for seq, _, last in work if last]
        done = [seq for seq, _, last in work if last]
        self._decode(work, embeddings=self._hidden_wanted)
        return self._collect(done, began)

    def truncate(self, seq: int, length: int) -> None:
        """Keep the first `length` tokens."""
        sequence = self._sequences[seq]
        del sequence.waiting[max(0, length - sequence.ran) :]
        if length < sequence.ran:
            api.llama_memory_seq_rm(self._memory, seq, length, -1)
            sequence.ran = length

    def release(self, seq: int) -> None:
        """Forget the sequence and free its KV."""
        sequence = self._sequences[seq]
        if sequence.free:
            raise EngineError(f"{self.spec.name}: sequence {seq} released twice")
        api.llama_memory_seq_rm(self._memory, seq, -1, -1)
        self._sequences[seq] = _Sequence(SamplingParams(), [], free=True)
        heappush(self._free, seq)

    def capacity(self) -> Capacity:
        """What is there and what is used."""
        total = len(self._sequences)
        return Capacity(
            sequences=total,
            sequences_used=total - len(self._free),
            tokens=total * self._context_length,
            tokens_used=sum(sequence.ran for sequence in self._sequences),
        )

    def close(self) -> None:
        """Free everything; no call may follow."""
        if self._context is not None:
            api.llama_free(self._context)
            self._context = None
            self._model.close()

    def _plan(self, seqs: Sequence[int]) -> list[tuple[int, int, bool]]:
        """(sequence, tokens to run, whether these are all), by sequence.

        Short ones come first when the budget is given out, but for a part of it that is kept for
        long ones: these would else starve while enough short ones come and go.
        """
        waiting = {seq: len(self._sequences[seq].waiting) for seq in seqs}
        for seq, count in waiting.items():
            if count == 0:
                raise EngineError(f"{self.spec.name}: sequence {seq} has no token to run")
        room = self._batch_tokens
        kept = min(sum(n for n in waiting.values() if n > _SHORT), max(1, room // _LONG_SHARE))
        plan = []
        for seq in sorted(seqs, key=lambda seq: waiting[seq] > _SHORT):
            long = waiting[seq] > _SHORT
            count = min(waiting[seq], room if long else room - kept)
            if count:
                plan.append((seq, count, count == waiting[seq]))
                room -= count
        return sorted(plan)

    def _decode(self, work: Sequence[tuple[int, int, bool]], *, embeddings: bool) -> None:
        if not work:
            return
        batch = self._batch
        batch.clear()
        # A forward covers sequences of consecutive numbers only: llama.cpp splits a batch at gaps.
        # Where one token runs on both sides of a small gap, running one token more in the gap (and
        # forgetting it) is cheaper than another forward.
        fillers = [] if embeddings else list(self._gaps(work))
        for seq, count, last in sorted([*work, *((seq, 0, False) for seq in fillers)]):
            sequence = self._sequences[seq]
            batch.add(seq, sequence.waiting[:count] or [0], sequence.ran, last)
        if self._hidden_wanted:
            api.llama_set_embeddings(self._context, embeddings)
        status = api.llama_decode(self._context, batch.struct)
        if status != 0:
            raise EngineError(
                f"{self.spec.name}: llama_decode failed with {status}: {library.recent_log()}"
            )
        for seq, count, _ in work:
            sequence = self._sequences[seq]
            del sequence.waiting[:count]
            sequence.ran += count
        for seq in fillers:
            api.llama_memory_seq_rm(self._memory, seq, self._sequences[seq].ran, -1)

    def _gaps(self, work: Sequence[tuple[int, int, bool]]) -> Iterator[int]:
        for (left, count, _), (right, next_count, _) in pairwise(work):
            gap = range(left + 1, right)
            has_room = all(self._sequences[seq].ran < self._context_length for seq in gap)
            if count == next_count == 1 and len(gap) <= _LARGEST_GAP and has_room:
                yield from gap

    def _collect(self, done: list[int], began: float) -> StepResult:
        rows = len(done)
        if rows == 0:
            empty = np.empty(0, dtype=np.int64)
            nothing = LogitsOutput()
            took = time.perf_counter() - began
            return StepResult([], empty, self._tensor(empty), nothing, [], took)
        output = _view(api.llama_get_logits(self._context), rows, self._logit_columns)
        logits, extra = np.split(output, [self.spec.vocab_size], axis=1)
        sampled = np.empty(rows, dtype=np.int64)
        logprobs: list[TokenLogprobs | None] = []
        for row, seq in enumerate(done):
            sequence = self._sequences[seq]
            token = sample(logits[row], sequence.sampling, sequence.ran, self._index)
            sampled[row] = token
            top = sequence.sampling.logprobs
            logprobs.append(None if top is None else token_logprobs(logits[row], token, top))
        shown = LogitsOutput(
            self._tensor(logits) if "logits" in self._needs else None,
            self._tensor(self._hidden_states(rows)) if self._hidden_wanted else None,
            None if self._embeddings is None else self._tensor(self._embeddings[sampled]),
            self._tensor(extra) if "extra_logits" in self._needs else None,
        )
        return StepResult(
            seqs=done,
            sampled=sampled,
            next_token_ids=self._tensor(sampled),
            logits_output=shown,
            logprobs=logprobs,
            duration=time.perf_counter() - began,
        )

    def _hidden_states(self, rows: int) -> NDArray[np.float32]:
        return _view(api.llama_get_embeddings(self._context), rows, self.spec.hidden_size)


_ALWAYS: frozenset[Need] = frozenset({"logits", "hidden_states", "token_embedding"})
_GGML_TYPE_BF16 = 30
_LARGEST_GAP = 2
_LONG_SHARE = 4  # one in so many tokens of the budget is kept for sequences that are not short
_SHORT = 8  # tokens: what a resumed request brings, as against a prompt


def _view(pointer: Any, rows: int, columns: int) -> NDArray[np.float32]:
    """The first `rows` output rows where llama.cpp keeps them, without a copy; in batch order."""
    return np.ctypeslib.as_array(pointer, shape=(rows, columns))
