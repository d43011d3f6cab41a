"""The servers of `std-serving` and `speculative` for either pair."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager

from benchmarks.runs.pairs import Pair
from benchmarks.systems.llama_server import llama_servers
from benchmarks.systems.sglang_server import sglang_servers
from benchmarks.systems.single_model_group import single_model_groups
from benchmarks.systems.speculative import Speculative, speculative
from benchmarks.systems.std_serving import SingleModelServer

DRAFT_MAX, DRAFT_P_MIN = 1, 0.8
"""Of speculation. Chosen by hand among five settings on a busy machine, where it looked no worse
than llama.cpp's defaults (3 and 0); not settled."""

THREADS = 1
"""Of each llama.cpp or SGLang server, so that two fill two cores. Chosen likewise, over 2."""


def routed_servers(
    pair: Pair, n_probs: tuple[int, int], context: int, most: int
) -> AbstractContextManager[Sequence[SingleModelServer]]:
    """A server for each model, up to `most` requests at once, until the block ends.

    n_probs: as an algorithm has it; only llama.cpp's servers are told.
    """
    if pair.engine == "sglang":
        return sglang_servers(pair.models, concurrency=most, context=context, threads=THREADS)
    if pair.engine == "profile":
        return single_model_groups(pair.models, concurrency=most, context=context)
    return llama_servers(
        pair.models,
        concurrency=most,
        context=context,
        threads=THREADS,
        n_probs=n_probs,
    )


def speculative_server(pair: Pair, context: int, most: int) -> AbstractContextManager[Speculative]:
    """llama.cpp's draft decoding on the real pair, until the block ends."""
    small, large = pair.models
    return speculative(
        large,
        small,
        concurrency=most,
        context=context,
        threads=THREADS,
        draft_max=DRAFT_MAX,
        draft_p_min=DRAFT_P_MIN,
    )
