"""Which requests of the queue read their tokens in the next forward."""

from __future__ import annotations

from typing import Any

from sglang.srt.managers.schedule_batch import Req
from sglang.srt.managers.schedule_policy import PrefillAdder, SchedulePolicy


class RoutedAdder(PrefillAdder):  # type: ignore[misc]
    """Admits requests that hold KV, too."""

    def _get_running_request_total_token_offset(self, req: Req) -> int:
        # SGLang keeps room for what a request will generate. How long a routed one stays with
        # this model nobody knows; the token of this step is accounted for elsewhere.
        return 0

    def _commit_prefill_admission(self, req: Req, admission: Any, mamba_gap_reserve: int) -> None:
        held = req.lock  # SGLang takes a lock for each admission, and one is what a request has
        super()._commit_prefill_admission(req, admission, mamba_gap_reserve)
        self.tree_cache.unlock(held)


class ArrivalOrder(SchedulePolicy):  # type: ignore[misc]
    """Leaves the queue as it was filled. Others would look every request up in the tree."""

    def calc_priority(self, waiting_queue: Any, running_batch: Any = None, **_: Any) -> None:
        """Nothing to do."""
