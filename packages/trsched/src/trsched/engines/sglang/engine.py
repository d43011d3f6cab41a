"""The production engine: SGLang's scheduler behind the engine protocol.

One engine a process. With tensor parallelism every rank has one, and all ranks must be given the
same calls in the same order.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from trrouters import LogitsOutput, Need
from trsched.engines.base import Capacity, EngineSpec, StepResult
from trsched.engines.sampling import token_logprobs
from trsched.engines.sglang import contract
from trsched.engines.sglang.sampling_seed import sampling_seed
from trsched.engines.sglang.settings import SglangSettings, server_arguments
from trsched.engines.sglang.without_cuda import prepare_without_cuda
from trsched.errors import EngineError
from trsched.request import SamplingParams, TokenLogprobs


class SglangEngine:
    """One model.

    needs: what the router reads.
    fingerprint: of tokenizer and vocabulary.
    """

    def __init__(
        self,
        name: str,
        settings: SglangSettings,
        fingerprint: str,
        *,
        index: int,
        needs: frozenset[Need] = frozenset(),
    ) -> None:
        self._index = index
        self._needs = needs
        self._settings = settings
        contract.check_version()
        prepare_without_cuda()
        contract.check_names()
        from trsched.engines.sglang import boot
        from trsched.engines.sglang.routed_req import RoutedReq

        arguments = server_arguments(settings, needs, cuda=torch.cuda.is_available())
        self._new_request = RoutedReq
        self._shut_down = boot.shut_down
        self.scheduler = boot.boot(settings, arguments)
        model = self.scheduler.model_config
        runner = self.scheduler.tp_worker.model_runner
        self._embed = runner.model.get_input_embeddings() if "token_embedding" in needs else None
        self._requests: list[Any] = [None] * settings.sequences
        self._sampling = [SamplingParams()] * settings.sequences
        self._free = list(range(settings.sequences - 1, -1, -1))
        self.spec = EngineSpec(
            name=name,
            vocab_size=model.vocab_size - settings.extra_rows,
            fingerprint=fingerprint,
            context_length=settings.context,
            hidden_size=model.hidden_size,
            kv_bytes_per_token=_kv_bytes_per_token(runner.token_to_kv_pool, settings.tp_size),
            provides=_ALWAYS | {"extra_logits"} if settings.extra_rows else _ALWAYS,
        )

    def start(self, token_ids: Sequence[int], sampling: SamplingParams) -> int:
        """A new sequence holding `token_ids`, not yet run. Raises EngineError when none is free."""
        if not self._free:
            raise EngineError(f"{self.spec.name}: no free sequence")
        seq = self._free.pop()
        seed = sampling_seed(sampling.seed, self._index)
        self._requests[seq] = self._new_request(f"{seq}", token_ids, sampling, seed)
        self._sampling[seq] = sampling
        return seq

    def append(self, seq: int, token_ids: Sequence[int]) -> None:
        """Tokens that join the next forward, on the kept KV."""
        self._request(seq).output_ids.extend(token_ids)

    def step(self, seqs: Sequence[int]) -> StepResult:
        """Run every token not yet run of `seqs` and sample one token each.

        One forward; a prompt that exceeds SGLang's budget is read in parts.

        A sequence may also be absent because there was no KV for it this time.
        """
        began = time.perf_counter()
        numbers = {self._runnable(seq): seq for seq in seqs}
        rows = self.scheduler.step(list(numbers))
        shown = self._shown(rows)  # before the host waits for the device
        sampled = rows.next_token_ids.cpu().numpy().astype(np.int64)
        done = [numbers[req] for req in rows.reqs]
        for req, token in zip(rows.reqs, sampled.tolist(), strict=True):
            req.relayed = token
        logprobs = self._logprobs(done, rows.logits, sampled)
        return StepResult(
            seqs=done,
            sampled=sampled,
            next_token_ids=rows.next_token_ids.to(torch.int64),
            logits_output=shown,
            logprobs=logprobs,
            duration=time.perf_counter() - began,
        )

    def truncate(self, seq: int, length: int) -> None:
        """Keep the first `length` tokens."""
        self.scheduler.truncate(self._request(seq), length)

    def release(self, seq: int) -> None:
        """Forget the sequence; its KV stays in the radix cache until its room is needed."""
        self.scheduler.release(self._request(seq))
        self._requests[seq] = None
        self._free.append(seq)

    def capacity(self) -> Capacity:
        """What is there and what is used; what only the radix cache holds counts as free."""
        total = self._settings.sequences
        return Capacity(
            sequences=total,
            sequences_used=total - len(self._free),
            tokens=self._settings.kv_tokens,
            tokens_used=self.scheduler.tokens_used(),
        )

    def close(self) -> None:
        """Free everything; no call may follow."""
        self._shut_down(self._settings)

    def _request(self, seq: int) -> Any:
        request = self._requests[seq]
        if request is None:
            raise EngineError(f"{self.spec.name}: sequence {seq} is not in use")
        return request

    def _runnable(self, seq: int) -> Any:
        request = self._request(seq)
        if request.to_run < 1:
            raise EngineError(f"{self.spec.name}: sequence {seq} has no token to run")
        if request.seqlen > self._settings.context:
            raise EngineError(f"{self.spec.name}: sequence {seq} is longer than the context")
        return request

    @torch.no_grad()
    def _shown(self, rows: Any) -> LogitsOutput:
        needs, vocab = self._needs, self.spec.vocab_size
        return LogitsOutput(
            rows.logits[:, :vocab].float() if "logits" in needs else None,
            rows.hidden.float() if "hidden_states" in needs else None,
            None if self._embed is None else self._embed(rows.next_token_ids).float(),
            rows.logits[:, vocab:].float() if "extra_logits" in needs else None,
        )

    def _logprobs(
        self, done: Sequence[int], logits: torch.Tensor, sampled: NDArray[np.int64]
    ) -> list[TokenLogprobs | None]:
        found: list[TokenLogprobs | None] = []
        for row, seq in enumerate(done):
            top = self._sampling[seq].logprobs
            if top is None:
                found.append(None)
                continue
            host = logits[row, : self.spec.vocab_size].float().cpu().numpy()
            found.append(token_logprobs(host, int(sampled[row]), top))
        return found


_ALWAYS: frozenset[Need] = frozenset({"logits", "hidden_states", "token_embedding"})


def _kv_bytes_per_token(pool: Any, ranks: int) -> int:
    """Over all ranks. The pool has one page more than it hands out."""
    rows = pool.size + pool.page_size
    return int(np.sum(pool.get_kv_size_bytes()) // rows * ranks)
