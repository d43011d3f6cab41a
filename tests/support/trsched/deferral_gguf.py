"""A GGUF as Co-LLM's authors make one: the LM head has one more row, which is no token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from numpy.typing import NDArray

from tests.support.trsched.seen_outputs import TEXT, Seen, small_engine, walk
from trrouters import ModelIdentity
from trrouters.checkpoint import RouterCheckpoint, save_checkpoint
from trsched.models.vocabulary import GgufVocabulary

EMBEDDING = "token_embd.weight"
DEFERRAL_TEXT = "<|defer|>"
HEAD_MARGIN = 1.0
"""More than llama.cpp's rounding of states moves a logit of these rows (by 0.6 at most)."""


def add_deferral_row(
    reader: gguf.GGUFReader,
    target: Path,
    row: NDArray[np.float32],
    token_type: gguf.TokenType = gguf.TokenType.CONTROL,
) -> None:
    """Write the model of `reader` (its head tied to a Q8_0 embedding) with `row` as the last."""
    writer = gguf.GGUFWriter(target, reader.fields["general.architecture"].contents())
    last: dict[str, Any] = {
        "tokenizer.ggml.tokens": DEFERRAL_TEXT,
        "tokenizer.ggml.token_type": int(token_type),
    }
    for key, field in reader.fields.items():
        if key.startswith("GGUF.") or key == "general.architecture":
            continue
        value = field.contents()
        if key in last:
            value = [*value, last[key]]
        elif key == "llama.vocab_size":
            value += 1
        inner = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(key, value, field.types[0], sub_type=inner)
    for tensor in reader.tensors:
        data = tensor.data
        if tensor.name == EMBEDDING:
            data = np.concatenate([data, gguf.quantize(row[None], tensor.tensor_type)])
        writer.add_tensor(tensor.name, data, raw_dtype=tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def as_stored(row: NDArray[np.float32]) -> NDArray[np.float32]:
    """The row as it comes back from Q8_0."""
    kind = gguf.GGMLQuantizationType.Q8_0
    stored: NDArray[np.float32] = gguf.dequantize(gguf.quantize(row[None], kind), kind)[0]
    return stored


@dataclass(frozen=True)
class DeferralModel:
    """The model extended by `row`. plain: what the model itself shows after each of `tokens`."""

    path: Path
    row: NDArray[np.float32]
    tokens: list[int]
    plain: list[Seen]

    @property
    def states(self) -> NDArray[np.float32]:
        """Hidden states after each token, `[n, hidden]`."""
        return np.array([seen.hidden for seen in self.plain])


def make_deferral_model(model: Path, target: Path) -> DeferralModel:
    """A row whose logits on the tests' text are 5 ± 15.

    Tokens' largest are about 20: at some positions the row's is the largest, at others negative.
    """
    vocabulary = GgufVocabulary(model)
    tokens = vocabulary.encode(TEXT, special=False)[:60]
    engine = small_engine(model, vocabulary)
    plain = walk(engine, tokens)
    engine.close()
    states = np.array([seen.hidden for seen in plain])
    mean = states.mean(axis=0)
    common = mean / (mean @ mean)
    row = np.random.default_rng(4).normal(size=len(mean))
    row -= (mean @ row) * common
    row *= 15 / (states @ row).std()
    row = (row + 5 * common).astype(np.float32)
    add_deferral_row(gguf.GGUFReader(model), target, row)
    return DeferralModel(target, row, tokens, plain)


def save_head(row: NDArray[np.float32], pair: Sequence[ModelIdentity], folder: Path) -> str:
    """The row (as Q8_0 leaves it) as a checkpoint of Co-LLM."""
    tensors = {"row.weight": torch.from_numpy(as_stored(row)[None]), "row.bias": torch.zeros(1)}
    architecture = {"hidden_size": len(row)}
    save_checkpoint(RouterCheckpoint("co_llm", architecture, 0.5, pair, tensors), folder)
    return str(folder)
