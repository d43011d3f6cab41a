"""Token-level routing as a plain sequential program: one request, one model at a time.

What the concurrent system emits must equal what this emits, token for token. Written from the
algorithms' definitions, on purpose without the code it judges: only the random draws are shared.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from trrouters.draws import RETURN_STREAM, ROUTING_STREAM, uniform
from trsched.request import SamplingParams


class Model(Protocol):
    """A model alone. `propose` gives the token after `tokens` and the logits it came from."""

    def propose(
        self, tokens: Sequence[int], params: SamplingParams
    ) -> tuple[int, NDArray[np.float32] | None]: ...


@dataclass
class OwnSampling:
    """A model that samples with `settings`, whatever the request says of these."""

    model: Model
    settings: Mapping[str, float]

    def propose(
        self, tokens: Sequence[int], params: SamplingParams
    ) -> tuple[int, NDArray[np.float32] | None]:
        return self.model.propose(tokens, msgspec.structs.replace(params, **self.settings))


@dataclass
class Answer:
    """Tokens, and the index of the model that made each."""

    tokens: list[int]
    models: list[int]


Decide = Callable[[int, int, NDArray[np.float32] | None, int], tuple[bool, int]]
"""(model, output position, its logits, tokens made in this visit) → (token stands, next model)."""


def generate(
    models: Sequence[Model],
    first: int,
    decide: Decide,
    prompt: Sequence[int],
    params: SamplingParams,
    max_tokens: int,
    stop_ids: frozenset[int],
) -> Answer:
    """Run the request to its end."""
    answer = Answer([], [])
    model, visit = first, 0
    while True:
        token, logits = models[model].propose([*prompt, *answer.tokens], params)
        stands, following = decide(model, len(answer.tokens), logits, visit + 1)
        if stands:
            answer.tokens.append(token)
            answer.models.append(model)
            visit += 1
            if token in stop_ids or len(answer.tokens) == max_tokens:
                return answer
        if following != model:
            model, visit = following, 0


def fixed(which: int) -> tuple[int, Decide]:
    return which, lambda model, position, logits, visit: (True, which)


def bernoulli(
    p: float, seed: int, prompt_length: int, tokens_per_call: int = 1, q: float | None = None
) -> tuple[int, Decide]:
    def decide(model, position, logits, visit):
        if model == 1 and q is not None:
            return True, int(uniform(seed, prompt_length + position, RETURN_STREAM) >= q)
        if model == 1:
            return True, 0 if visit >= tokens_per_call else 1
        leaves = uniform(seed, prompt_length + position, ROUTING_STREAM) < p
        return not leaves, int(leaves)

    return 0, decide


def r_stitch(tau: float, keep_return_token: bool = True) -> tuple[int, Decide]:
    def decide(model, position, logits, visit):
        row = logits.astype(np.float64)
        probs = np.exp(row - row.max())
        probs /= probs.sum()
        entropy = -np.sum(probs[probs > 0] * np.log(probs[probs > 0])) / math.log(len(row))
        if model == 0:
            return (False, 1) if entropy > tau else (True, 0)
        if entropy <= tau:
            return keep_return_token or visit == 1, 0
        return True, 1

    return 0, decide


def one_token_visits(hands_over: Callable[[], bool]) -> tuple[int, Decide]:
    """R2R, CITER, Co-LLM: asked of each token of model 0; model 1 makes one in its place."""

    def decide(model, position, logits, visit):
        if model == 1:
            return True, 0
        return (False, 1) if hands_over() else (True, 0)

    return 0, decide


def in_calls(
    base: Model,
    assistant: Model,
    defers: Callable[[], bool],
    tokens_per_call: int,
    prompt: Sequence[int],
    params: SamplingParams,
    max_tokens: int,
    stop_ids: frozenset[int],
) -> Answer:
    """Co-LLM as its authors' program runs it (arXiv 2403.03870, `collm/generate.py`).

    The base is asked for `tokens_per_call` tokens at once; they are cut off at the first whose
    deferral is wanted, and the assistant makes that one.
    """
    answer = Answer([], [])

    def add(token: int, model: int) -> bool:
        answer.tokens.append(token)
        answer.models.append(model)
        return token in stop_ids or len(answer.tokens) == max_tokens

    while True:
        call: list[int] = []
        deferred = []
        while len(call) < tokens_per_call and not stop_ids.intersection(call):
            call.append(base.propose([*prompt, *answer.tokens, *call], params)[0])
            deferred.append(defers())
        cut = deferred.index(True) if True in deferred else len(call)
        if any(add(token, 0) for token in call[:cut]):
            return answer
        if cut < len(call):
            token, _ = assistant.propose([*prompt, *answer.tokens], params)
            if add(token, 1):
                return answer


def mixture(weights: Sequence[float], seed: int) -> tuple[int, Decide]:
    edges = np.cumsum(weights) / np.sum(weights)

    def draw(position: int) -> int:
        return int(np.argmax(edges > uniform(seed, position, ROUTING_STREAM)))

    return draw(0), lambda model, position, logits, visit: (True, draw(position + 1))


def reference_sample(
    logits: NDArray[np.float32], params: SamplingParams, position: int, model: int
) -> int:
    """Sampling by its definition, in float64."""
    ids, weights = kept_tokens(logits, params)
    cumulative = np.cumsum(weights)
    target = uniform(params.seed, position, model) * cumulative[-1]
    return int(ids[np.searchsorted(cumulative, target, side="right")])


def kept_tokens(
    logits: NDArray[np.float32], params: SamplingParams
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """The tokens that may be sampled, in the order of the draw, and their weights."""
    row = logits.astype(np.float64)
    if params.temperature == 0:
        return np.array([row.argmax()]), np.ones(1)
    probs = np.exp((row - row.max()) / params.temperature)
    probs /= probs.sum()
    ids = np.arange(len(row))
    if params.top_k or params.top_p < 1:
        ids = np.lexsort((ids, -row))[: params.top_k or None]
        kept = probs[ids] / probs[ids].sum()
        ids = ids[np.cumsum(kept) - kept < params.top_p]
    return ids, probs[ids]
