"""The forward and the sampling of one batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from sglang.srt.managers.schedule_batch import Req
from sglang.srt.managers.tp_worker import TpModelWorker
from sglang.srt.managers.utils import GenerationBatchResult
from sglang.srt.model_executor.forward_batch_info import ForwardBatch
from sglang.srt.sampling.sampling_batch_info import SamplingBatchInfo


class RoutedWorker(TpModelWorker):  # type: ignore[misc]
    """Shows logits as the model made them: sampling overwrites its own with probabilities."""

    extra_rows = 0

    def forward_batch_generation(self, batch: Any, *_: Any, **__: Any) -> GenerationBatchResult:
        """One forward and one sampled token a row."""
        forward_batch = ForwardBatch.init_new(
            batch, self.model_runner, return_hidden_states_before_norm=False
        )
        forward = self.model_runner.forward(forward_batch)
        output = forward.logits_output
        logits = output.next_token_logits
        info = forward_batch.sampling_info
        if info.is_all_greedy:
            shown = logits
        else:
            shown = logits.clone()
            _seed(info, batch.reqs)
        output.next_token_logits = logits[:, : logits.shape[1] - self.extra_rows]
        next_token_ids = self.model_runner.sample(output, forward_batch)
        output.next_token_logits = shown
        return GenerationBatchResult(
            logits_output=output,
            next_token_ids=next_token_ids,
            can_run_cuda_graph=forward.can_run_graph,
        )


def _seed(info: SamplingBatchInfo, reqs: Sequence[Req]) -> None:
    """Make the draws independent of the batch.

    SGLang seeds requests only in its deterministic mode, whose slower kernels this doesn't need.
    Its noise goes by token where nobody in the batch wants top-k or top-p, by rank where somebody
    does: here always by rank.
    """
    info.need_top_p_sampling = True
    if info.sampling_seed is None or len(info.sampling_seed) != len(reqs):
        seeds = [req.sampling_params.sampling_seed for req in reqs]
        info.sampling_seed = torch.tensor(seeds, dtype=torch.int64).to(info.device)
