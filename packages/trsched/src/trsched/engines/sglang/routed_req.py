"""A sequence as SGLang's request."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

from sglang.srt.managers.schedule_batch import Req
from sglang.srt.sampling.sampling_params import SamplingParams as SglangSampling

from trsched.request import SamplingParams


class RoutedReq(Req):  # type: ignore[misc]
    """A sequence. Its tokens are origin_input_ids and output_ids; the first `ran` are in the KV.

    relayed: the token sampled for it last, which SGLang keeps on the device as its next input.
    """

    origin_input_ids: array[int]

    def __init__(
        self, name: str, token_ids: Sequence[int], sampling: SamplingParams, seed: int
    ) -> None:
        params = SglangSampling(
            max_new_tokens=1,  # of this step; how many there will be is not known here
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k or -1,
            sampling_seed=seed,
        )
        super().__init__(name, "", array("q", token_ids), params)
        self.logprob_start_len = -1
        self.relayed = -1

    @property
    def ran(self) -> int:
        """Tokens in the KV."""
        return self.kv.kv_committed_len if self.kv.holds_kv else 0

    @property
    def to_run(self) -> int:
        """Tokens that the next forward has to take in."""
        return int(self.seqlen) - self.ran

    @property
    def last_token(self) -> int:
        """The last of its tokens."""
        return int(self.output_ids[-1] if self.output_ids else self.origin_input_ids[-1])

    def init_next_round_input(self, tree_cache: Any = None, cow_mamba: Any = None) -> None:
        """What is in the KV is the prefix; only a request without KV looks for one in the tree."""
        if not self.kv.holds_kv:
            super().init_next_round_input(tree_cache, cow_mamba)
            return
        self.refresh_fill_ids()
        self.prefix_len = self.ran
        self.last_node = self.lock.node

    def cut(self, length: int) -> None:
        """Forget the tokens from `length` on. They must not be in the KV any more."""
        kept = max(0, length - len(self.origin_input_ids))
        del self.output_ids[kept:]
        if length < len(self.origin_input_ids):
            self.origin_input_ids = self.origin_input_ids[:length]
        del self.full_untruncated_fill_ids[length:]
