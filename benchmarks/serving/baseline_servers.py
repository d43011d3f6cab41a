"""The servers of `std-serving` and `speculative` for either pair."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from benchmarks.serving.llama_server import two_llama_servers
from benchmarks.serving.pairs import Pair
from benchmarks.serving.speculative import Speculative, speculative
from benchmarks.serving.std_serving import SingleModelServer
from benchmarks.serving.two_groups import two_groups

DRAFT_MAX, DRAFT_P_MIN = 1, 0.8
"""Of speculation: the best of five settings tried; the default, 3 and 0, was slower."""

THREADS = 1
"""Of each llama.cpp server: on two shared cores two servers of two threads were slower."""


@contextmanager
def routed_servers(
    pair: Pair, algorithm: str, context: int, most: int
) -> Iterator[Sequence[SingleModelServer]]:
    """A server for each model, up to `most` requests at once, until the block ends."""
    routed = pair.algorithms[algorithm]
    if pair.engine == "profile":
        with two_groups(
            pair.models, {}, routed.flow, concurrency=most, context=context
        ) as std_serving:
            yield std_serving.servers
        return
    with two_llama_servers(
        pair.models,
        {},
        routed.flow,
        concurrency=most,
        context=context,
        threads=THREADS,
        n_probs=routed.n_probs,
    ) as std_serving:
        yield std_serving.servers


@contextmanager
def speculative_server(pair: Pair, context: int, most: int) -> Iterator[Speculative]:
    """llama.cpp's draft decoding on the real pair, until the block ends."""
    small, large = pair.models
    with speculative(
        large,
        small,
        concurrency=most,
        context=context,
        threads=THREADS,
        draft_max=DRAFT_MAX,
        draft_p_min=DRAFT_P_MIN,
    ) as server:
        yield server
