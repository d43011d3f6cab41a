"""What an engine shows of one sequence, kept beyond the step, and the same of it alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from numpy.typing import NDArray

from trrouters import LogitsOutput, Need, RouteResult
from trrouters.route_result import Tensor
from trsched.engines.base import StepResult
from trsched.engines.llamacpp import LlamaCppEngine
from trsched.models.vocabulary import GgufVocabulary
from trsched.request import SamplingParams

ALL: frozenset[Need] = frozenset({"logits", "hidden_states", "token_embedding"})
GREEDY = SamplingParams(temperature=0.0)
TEXT = "Once upon a time, in 1987, a small fox lived near the river Thames with 3 cats. " * 4
HEAD_TOLERANCE = 0.02
"""Between an LM head's logits and `rounded(hidden)` times its rows: sums in another order, or one
number of a state rounded the other way (logits differ from token to token by 4)."""


@dataclass(frozen=True)
class Seen:
    """Copies of one row."""

    token: int
    logits: NDArray[np.float32] | None
    hidden: NDArray[np.float32] | None
    embedding: NDArray[np.float32] | None
    extra: NDArray[np.float32] | None

    def alone(self) -> RouteResult:
        """The row as a step of its own."""
        rows = (self.logits, self.hidden, self.embedding, self.extra)
        shown = LogitsOutput(
            *(None if row is None else torch.from_numpy(row[None]) for row in rows)
        )
        return RouteResult([], torch.tensor([self.token]), shown)


def look(result: StepResult) -> dict[int, Seen]:
    """Rows of a step by sequence."""
    shown = result.logits_output
    tensors = (
        shown.next_token_logits,
        shown.hidden_states,
        shown.token_embeddings,
        shown.extra_logits,
    )
    return {
        seq: Seen(int(result.sampled[row]), *(_row(tensor, row) for tensor in tensors))
        for row, seq in enumerate(result.seqs)
    }


def _row(tensor: Tensor | None, row: int) -> NDArray[np.float32] | None:
    return None if tensor is None else tensor[row].numpy().copy()


def look_at(engine: LlamaCppEngine, seq: int) -> Seen:
    """Step one sequence until it has sampled."""
    while not (rows := look(engine.step([seq]))):
        pass
    return rows[seq]


def walk(engine: LlamaCppEngine, tokens: Sequence[int]) -> list[Seen]:
    """What the engine shows after each token of a text."""
    seq = engine.start(tokens[:1], GREEDY)
    rows = [look_at(engine, seq)]
    for token in tokens[1:]:
        engine.append(seq, [token])
        rows.append(look_at(engine, seq))
    engine.release(seq)
    return rows


def assert_same(shown: Seen, expected: Seen) -> None:
    """Bit for bit, all that is shown."""
    assert shown.token == expected.token
    for name in ("logits", "hidden", "embedding", "extra"):
        ours, theirs = getattr(shown, name), getattr(expected, name)
        assert ours is None or np.array_equal(ours, theirs), name


def small_engine(path: Path, vocabulary: GgufVocabulary, **changes: Any) -> LlamaCppEngine:
    """An engine of the tests' small model, or of one made from it."""
    settings: dict[str, Any] = {"sequences": 1, "context": 128, "needs": ALL, "batch_tokens": 128}
    return LlamaCppEngine("slm", path, vocabulary, index=0, threads=2, **settings | changes)


class Alone:
    """Each prefix run at once on an empty engine, one at a time; remembers what it saw."""

    def __init__(self, path: Path, vocabulary: GgufVocabulary) -> None:
        self._engine = small_engine(path, vocabulary)
        self._seen: dict[tuple[int, ...], Seen] = {}

    def __call__(self, tokens: Sequence[int]) -> Seen:
        key = tuple(tokens)
        if key not in self._seen:
            seq = self._engine.start(tokens, GREEDY)
            self._seen[key] = look_at(self._engine, seq)
            self._engine.release(seq)
        return self._seen[key]

    def close(self) -> None:
        self._engine.close()


def rounded(hidden: NDArray[np.float32]) -> NDArray[np.float32]:
    """States as llama.cpp multiplies them with a Q8_0 head: in blocks of 32 numbers of 8 bits."""
    kind = gguf.GGMLQuantizationType.Q8_0
    states: NDArray[np.float32] = gguf.dequantize(gguf.quantize(hidden, kind), kind)
    return states
