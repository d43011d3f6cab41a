"""What a subserver's steps did and how long they took: all that delayed batching depends on."""

from __future__ import annotations

from collections.abc import Iterable
from ctypes import c_double, c_int64

from trsched.shared.arena import Arena


class StepCounters:
    """Only ever grows; written by the subserver, read by the tuner and the metrics page.

    moves[j]: steps of requests that ended with the request at model j (steps of a batch of b count
        b; requests that are bound to one model don't count).
    tokens[j]: those of them that committed a token.
    batches[b], seconds[b]: turns that stepped b requests, and what they took from the step to the
        last hand-off; turns that took in a new request, one whose KV had been reclaimed, or a part
        of a prompt don't count.
    """

    def __init__(self, models: int, largest_batch: int, arena: Arena | None = None) -> None:
        arena = arena or Arena()
        self.moves = arena.take(c_int64 * models)
        self.tokens = arena.take(c_int64 * models)
        self.batches = arena.take(c_int64 * (largest_batch + 1))
        self.seconds = arena.take(c_double * (largest_batch + 1))

    def moved(self, rows: Iterable[tuple[int, int]]) -> None:
        """Rows of a step: where each request is now, and the position of its token (-1: none)."""
        for owner, position in rows:
            self.moves[owner] += 1
            self.tokens[owner] += position >= 0

    def took(self, size: int, seconds: float) -> None:
        """One turn with `size` requests."""
        self.batches[size] += 1
        self.seconds[size] += seconds
