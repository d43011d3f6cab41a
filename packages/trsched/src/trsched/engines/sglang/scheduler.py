"""SGLang's scheduler with requests that leave and come back.

SGLang decides what runs together, chunks prompts, matches prefixes, allocates and evicts KV, runs
the forward and samples. Ours is who takes part in an iteration, that a request keeps its KV while
it takes no part (it is parked), and that a sampled token is only shown.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from sglang.srt.managers.schedule_batch import ScheduleBatch
from sglang.srt.managers.schedule_policy import PrefillAdder
from sglang.srt.managers.scheduler import Scheduler
from sglang.srt.managers.scheduler_components.ipc_channels import SchedulerIpcChannels
from sglang.srt.managers.scheduler_components.output_sender import SenderWrapper
from sglang.srt.managers.utils import GenerationBatchResult
from sglang.srt.mem_cache.common import checkpoint_kv_cache, release_kv_cache
from sglang.srt.runtime_context import get_device
from sglang.srt.sampling.sampling_batch_info import SamplingBatchInfo
from sglang.srt.server_args import PortArgs, ServerArgs

from trsched.engines.sglang.routed_prefill import ArrivalOrder, RoutedAdder
from trsched.engines.sglang.routed_req import RoutedReq
from trsched.engines.sglang.routed_worker import RoutedWorker
from trsched.errors import EngineError


@dataclass(frozen=True, slots=True)
class StepRows:
    """Row i belongs to reqs[i], which has taken in all its tokens. Valid until the next step.

    next_token_ids: `[rows]`.
    logits: `[rows, vocab + extra]`, before temperature and filters.
    hidden: `[rows, hidden]`, after the final norm; None unless SGLang was told to return them.
    """

    reqs: list[RoutedReq]
    next_token_ids: torch.Tensor
    logits: torch.Tensor
    hidden: torch.Tensor | None


class RoutedScheduler(Scheduler):  # type: ignore[misc]
    """SGLang's scheduler, one iteration a call.

    retractions: times a sequence lost its KV.
    """

    waiting_queue: list[RoutedReq]
    chunked_req: RoutedReq | None
    invariant_checker: Any

    def __init__(self, server_args: ServerArgs, port_args: PortArgs, extra_rows: int) -> None:
        self.extra_rows = extra_rows
        self.retractions = 0
        self._holders: dict[RoutedReq, None] = {}  # may hold KV; first what ran longest ago
        # The last batch, if all of it decoded: goes on as it is where the same ones decode again.
        self._decoding: ScheduleBatch | None = None
        super().__init__(server_args, port_args)

    # ---- what SGLang's processes need and we have not: sockets, tokenizer, detokenizer

    def init_ipc_channels(self, port_args: PortArgs) -> None:
        """No sockets."""
        nobody = SenderWrapper(None)
        self.ipc_channels = SchedulerIpcChannels(
            recv_from_tokenizer=None,
            recv_from_rpc=None,
            send_to_tokenizer=nobody,
            send_to_detokenizer=nobody,
            send_metrics_from_scheduler=None,
        )
        self.load_snapshot_writer = None
        self.recv_from_tokenizer = None

    def init_tp_model_worker(self) -> None:
        """The worker that shows its logits."""
        self.tp_worker = RoutedWorker(
            server_args=self.server_args, gpu_id=get_device().gpu_id, nccl_port=self.nccl_port
        )
        self.tp_worker.extra_rows = self.extra_rows

    def init_schedule_policy(self) -> None:
        """SGLang's, but for the order."""
        super().init_schedule_policy()
        self.policy = ArrivalOrder("fcfs", self.tree_cache, False, False, False)

    def init_invariant_checker(self) -> None:
        """SGLang's, which then knows parked requests as owners of KV."""
        super().init_invariant_checker()
        self.invariant_checker = dataclasses.replace(
            self.invariant_checker, get_last_batch=self._owners, get_running_batch=self._owners
        )

    def get_prefill_adder_class(self) -> type[PrefillAdder]:
        """Ours."""
        return RoutedAdder

    def get_num_allocatable_reqs(self, *_: Any, **__: Any) -> int:
        """No limit: there are as many KV rows as sequences, whoever holds one already."""
        return int(self.max_running_requests) + 1

    def is_fully_idle(self, *args: Any, **kwargs: Any) -> bool:
        """Also nothing parked."""
        held = any(req.kv.holds_kv for req in self._holders)
        return not held and bool(super().is_fully_idle(*args, **kwargs))

    # ---- an iteration

    def step(self, reqs: Sequence[RoutedReq]) -> StepRows:
        """One forward of as many of `reqs` as fit.

        Raises EngineError when the pool cannot hold even one.
        """
        for req in reqs:
            self._holders.pop(req, None)
            self._holders[req] = None
        outside = self.device_module.current_stream()
        self.schedule_stream.wait_stream(outside)  # where what was shown last may still be read
        with torch.no_grad(), self.device_module.StreamContext(self.schedule_stream):
            batch = self._next_batch(reqs)
            result = self.run_batch(batch)
            rows = _rows(batch, result, self.chunked_req)
            self.process_batch_result(batch, result)
        outside.wait_stream(self.schedule_stream)
        return rows

    def process_batch_result(self, batch: ScheduleBatch, result: GenerationBatchResult) -> None:
        """Prompts go into the tree. No token is appended, nothing finishes, nothing is streamed."""
        decoding = batch.forward_mode.is_decode()
        for req in () if decoding else batch.reqs:
            prompt = len(req.origin_input_ids) // self.page_size * self.page_size
            if req.kv.cache_protected_len < prompt:
                checkpoint_kv_cache(req, self.tree_cache)
        self._decoding = batch if decoding else None
        if self.chunked_req is not None:
            self.chunked_req.relayed = -1  # what was sampled for it means nothing
        # SGLang goes on with one request that has read a part of its prompt. Here any number of
        # them are requests that hold KV and have more tokens to run, as are those that come back.
        self.chunked_req = None
        self.waiting_queue = []

    def _next_batch(self, reqs: Sequence[RoutedReq]) -> ScheduleBatch:
        decode = [req for req in reqs if req.kv.holds_kv and req.to_run == 1]
        queue = [req for req in reqs if not (req.kv.holds_kv and req.to_run == 1)]
        # First what comes back with a few tokens, then prompts in order of arrival.
        queue.sort(key=lambda req: req.to_run if req.kv.holds_kv else self.max_total_num_tokens)
        self._make_room(decode, queue)
        running = self._decode_batch(decode)
        while True:
            self.waiting_queue = list(queue)
            plan = self.get_next_batch_to_run(running, None)
            if plan.batch_to_run is not None:
                return plan.batch_to_run
            self._give_way(queue)

    def _decode_batch(self, reqs: list[RoutedReq]) -> ScheduleBatch:
        """A batch of these, each with one token to run."""
        kept, self._decoding = self._decoding, None
        if kept is None or set(kept.reqs) != set(reqs):
            kept = self._new_decode_batch(reqs) if reqs else ScheduleBatch(reqs=[])
        kept.batch_is_full = False
        others = [req for req in kept.reqs if req.relayed != req.last_token]
        if others:  # tokens that weren't sampled by the last forward of their row
            self.future_map.stash_bonus_tokens(
                self._tensor([req.kv.req_pool_idx for req in others]),
                self._tensor([req.last_token for req in others]),
            )
        return kept

    def _new_decode_batch(self, reqs: list[RoutedReq]) -> ScheduleBatch:
        batch = ScheduleBatch.init_new(
            reqs,
            self.req_to_token_pool,
            self.token_to_kv_pool_allocator,
            self.tree_cache,
            self.model_config,
            self.enable_overlap,
            self.spec_algorithm,
        )
        rows = [req.kv.req_pool_idx for req in reqs]
        lengths = [req.ran for req in reqs]
        batch.req_pool_indices = self._tensor(rows)
        batch.req_pool_indices_cpu = torch.tensor(rows, dtype=torch.int64)
        batch.seq_lens = self._tensor(lengths)
        batch.seq_lens_cpu = torch.tensor(lengths, dtype=torch.int64)
        batch.orig_seq_lens = batch.seq_lens.to(torch.int32)
        batch.multimodal_inputs = [None] * len(reqs)
        batch.sampling_info = SamplingBatchInfo.from_schedule_batch(
            batch, self.model_config.vocab_size
        )
        return batch

    def _tensor(self, values: list[int]) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.int64).to(self.device, non_blocking=True)

    # ---- KV memory

    def tokens_used(self) -> int:
        """KV that sequences hold; what only the tree holds is free."""
        return int(self.max_total_num_tokens) - self._free_tokens()

    def truncate(self, req: RoutedReq, length: int) -> None:
        """Keep the first `length` tokens and their KV.

        KV inside what the tree owns is not the request's to keep in part: it lets go of all of it,
        and its next forward finds the prefix in the tree.
        """
        if req.kv.holds_kv and length < req.ran:
            if length < max(1, req.kv.cache_protected_len):
                self._let_go(req)
            else:
                self._decoding = None
                start = -(-length // self.page_size) * self.page_size
                if start < req.kv.kv_allocated_len:
                    self.tree_cache.free_kv_row(req.kv, [(start, req.kv.kv_allocated_len)])
                req.kv.kv_committed_len = req.kv.kv_allocated_len = length
        req.cut(length)

    def release(self, req: RoutedReq) -> None:
        """Forget the request, in whatever state: its KV is the tree's from now on."""
        if req.kv.holds_kv:
            self._let_go(req)
        self._holders.pop(req, None)

    def _let_go(self, req: RoutedReq) -> None:
        """The tree takes the KV over, for whoever has the same prefix, and until it needs room."""
        release_kv_cache(req, self.tree_cache, checkpoint=True)
        req.reset_for_retract()

    def _retract(self, req: RoutedReq) -> None:
        self._let_go(req)
        self.retractions += 1

    def _add_request_to_queue(self, req: RoutedReq, is_retracted: bool = False) -> None:
        # SGLang's own retraction: what decodes has run out of room
        self.retractions += is_retracted
        super()._add_request_to_queue(req, is_retracted)

    def _free_tokens(self) -> int:
        allocator = self.token_to_kv_pool_allocator
        return int(allocator.available_size() + self.tree_cache.evictable_size())

    def _make_room(self, decode: list[RoutedReq], queue: list[RoutedReq]) -> None:
        """Take KV of parked requests, and for those that decode also of others in the queue."""
        page = self.page_size
        for_decode = page * len(decode)
        # SGLang admits a request when there is more than its tokens, one more and a page.
        for_queue = sum(req.to_run + 2 * page + 1 for req in queue)
        if self._free_tokens() >= for_decode + for_queue:
            return
        ready = {*decode, *queue}
        for req in [req for req in self._holders if req.kv.holds_kv and req not in ready]:
            self._retract(req)
            if self._free_tokens() >= for_decode + for_queue:
                return
        for req in reversed(queue):
            if self._free_tokens() >= for_decode:
                return
            if req.kv.holds_kv:
                self._retract(req)

    def _give_way(self, queue: list[RoutedReq]) -> None:
        """Nothing fits: of those that have read a part of their prompts the last starts again."""
        holding = [req for req in queue[1:] if req.kv.holds_kv]
        if not holding:
            raise EngineError(
                f"a KV pool of {self.max_total_num_tokens} tokens cannot hold one more sequence, "
                "with everything else taken out of it: give it more kv_memory or a smaller context"
            )
        self._retract(holding[-1])

    def _owners(self) -> ScheduleBatch:
        return ScheduleBatch(reqs=list(self._holders))


def _rows(
    batch: ScheduleBatch, result: GenerationBatchResult, unfinished: RoutedReq | None
) -> StepRows:
    """The result without the row of the request that has read only a part of its prompt."""
    output = result.logits_output
    reqs, tokens = batch.reqs, result.next_token_ids
    logits, hidden = output.next_token_logits, output.hidden_states
    if unfinished is not None:
        kept = [row for row, req in enumerate(reqs) if req is not unfinished]
        reqs = [reqs[row] for row in kept]
        index = torch.tensor(kept, dtype=torch.int64).to(tokens.device)
        tokens, logits = tokens[index], logits[index]
        hidden = None if hidden is None else hidden[index]
    return StepRows(list(reqs), tokens, logits, hidden)
