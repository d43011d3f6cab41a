"""BERT's forward pass on the CPU, for few and short prompts: transformers' BertModel and the mean
over its tokens, with weights laid out for the processor once instead of at every call, and without
padding but in attention.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor, wait
from copy import deepcopy
from dataclasses import dataclass
from itertools import chain
from threading import Barrier
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from sentence_transformers.sentence_transformer.modules import Normalize
from torch.nn import functional
from transformers import BertModel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from sentence_transformers import SentenceTransformer
    from torch import Tensor

_ROWS = 32  # tokens that weights are laid out for; others work as well

_SHARE = 32
"""Fewer tokens are not worth a thread of their own: most of the time weights are waited for."""


def encoder_of(model: SentenceTransformer) -> BertEncoder | None:
    """For a BERT whose vectors are means over its tokens; None for anything else."""
    first, *rest = model
    bert: Any = getattr(first, "auto_model", None)
    if type(bert) is not BertModel or not rest or not model.tokenizer.is_fast:
        return None
    if (bert.config.hidden_act, bert.config.is_decoder) != ("gelu", False):
        return None
    if getattr(rest[0], "pooling_mode", None) != "mean":
        return None
    if not all(isinstance(module, Normalize) for module in rest[1:]):
        return None
    return BertEncoder(bert, model.tokenizer, model.max_seq_length)


class BertEncoder:
    """A trained model's tokenizer and weights, in its own precision.

    As many threads as torch has share a batch's prompts; none waits for another but at the end.
    (Were they to share each product, they would wait at each of 24: on two cores that had other
    work, too, 30 prompts took 480 ms instead of the 69 of one thread.)
    """

    def __init__(self, model: BertModel, tokenizer: Any, max_tokens: int | None) -> None:
        """The parts of a model that `encoder_of` accepted. max_tokens: what is longer is cut."""
        self._tokenizer = deepcopy(tokenizer.backend_tokenizer)
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(max_tokens or model.config.max_position_embeddings)
        self._threads = torch.get_num_threads()
        self._pool = _lone_threads(self._threads)
        self._owner = os.getpid()
        embeddings = model.embeddings
        self._words = embeddings.word_embeddings.weight.detach()
        positions = embeddings.position_embeddings.weight.detach()
        self._positions = positions + embeddings.token_type_embeddings.weight.detach()[0]
        self._norm = _Norm(embeddings.LayerNorm)
        heads = model.config.num_attention_heads
        self._layers = [_Layer(layer, heads) for layer in model.encoder.layer]

    def __call__(self, prompts: list[str]) -> NDArray[np.float32]:
        """float32 [R, D], the mean over each prompt's tokens."""
        encoded = [each.ids for each in self._tokenizer.encode_batch(prompts)]
        shares = even_shares([len(ids) for ids in encoded], self._threads, _SHARE)
        vectors = np.empty((len(prompts), self._words.shape[1]), np.float32)
        if self._owner != os.getpid():  # threads stay behind in a fork
            self._pool, self._owner = _lone_threads(self._threads), os.getpid()
        means = self._pool.map(self._embed, ([encoded[row] for row in rows] for rows in shares))
        for rows, mean in zip(shares, means, strict=True):
            vectors[rows] = mean
        return vectors

    def _embed(self, encoded: list[list[int]]) -> NDArray[np.float32]:
        with torch.inference_mode():
            rows = _Rows.of([len(ids) for ids in encoded])
            tokens = torch.tensor(list(chain.from_iterable(encoded)))
            mean: NDArray[np.float32] = self._forward(tokens, rows).numpy()
        return mean

    def _forward(self, tokens: Tensor, rows: _Rows) -> Tensor:
        """float32 [R, D]. tokens: int64 [N], of all prompts one after another."""
        x = functional.embedding(tokens, self._words) + self._positions[rows.position]
        x = self._norm(x)
        for layer in self._layers:
            x = layer(x, rows)
        return rows.means(x)


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """Where the N tokens of R prompts belong. Only attention sees prompts as rows of T, padded.

    row, position: int64 [N].
    length: int64 [R].
    seen: bool [R, 1, 1, T], what is no padding; None if nothing is.
    place: int64 [N], row * T + position.
    """

    length: Tensor
    longest: int
    row: Tensor
    position: Tensor
    place: Tensor
    seen: Tensor | None

    @classmethod
    def of(cls, lengths: list[int]) -> _Rows:
        """lengths: R, each at least 1: a prompt has its two special tokens."""
        length, longest = torch.tensor(lengths), max(lengths)
        real = torch.arange(longest) < length[:, None]
        row, position = real.nonzero(as_tuple=True)
        padded = len(row) < real.numel()
        seen = real[:, None, None, :] if padded else None
        return cls(length, longest, row, position, row * longest + position, seen)

    def spread(self, x: Tensor) -> Tensor:
        """[R, T, W] of [N, W], zeros for padding."""
        rows = len(self.length)
        if self.seen is None:
            return x.view(rows, self.longest, -1)
        spread = x.new_zeros(rows * self.longest, x.shape[1])
        return spread.index_copy_(0, self.place, x).view(rows, self.longest, -1)

    def gather(self, x: Tensor) -> Tensor:
        """[N, W] of [R, T, W]."""
        flat = x.flatten(0, 1)
        return flat if self.seen is None else flat.index_select(0, self.place)

    def means(self, x: Tensor) -> Tensor:
        """float32 [R, W] of [N, W], over each prompt's tokens."""
        sums = torch.zeros(len(self.length), x.shape[1]).index_add_(0, self.row, x.float())
        return sums / self.length[:, None]


class _Layer:
    def __init__(self, layer: Any, heads: int) -> None:
        attention = layer.attention
        parts = (attention.self.query, attention.self.key, attention.self.value)
        self._heads = heads
        self._to_heads = _Linear(*parts)
        self._from_heads = _Linear(attention.output.dense)
        self._norm = _Norm(attention.output.LayerNorm)
        self._up = _Linear(layer.intermediate.dense, then="gelu")
        self._down = _Linear(layer.output.dense)
        self._last_norm = _Norm(layer.output.LayerNorm)

    def __call__(self, x: Tensor, rows: _Rows) -> Tensor:
        x = self._norm(self._from_heads(self._attention(self._to_heads(x), rows)) + x)
        return self._last_norm(self._down(self._up(x)) + x)

    def _attention(self, projected: Tensor, rows: _Rows) -> Tensor:
        """[N, W] of query, key and value, [N, 3 W]."""
        spread = rows.spread(projected)
        split = spread.view(*spread.shape[:2], 3, self._heads, -1)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        heads = functional.scaled_dot_product_attention(query, key, value, attn_mask=rows.seen)
        return rows.gather(heads.transpose(1, 2).flatten(2))


class _Norm:
    def __init__(self, norm: torch.nn.LayerNorm) -> None:
        self._shape, self._eps = norm.normalized_shape, norm.eps
        self._weight, self._bias = norm.weight.detach(), norm.bias.detach()

    def __call__(self, x: Tensor) -> Tensor:
        return functional.layer_norm(x, self._shape, self._weight, self._bias, self._eps)


class _Linear:
    """Several layers of one input as one; packed where oneDNN can."""

    def __init__(self, *layers: torch.nn.Linear, then: Literal["none", "gelu"] = "none") -> None:
        self._weight = torch.cat([layer.weight.detach() for layer in layers])
        self._bias = torch.cat([layer.bias.detach() for layer in layers])
        self._then = then
        self._packed = _can_pack(self._weight.dtype)
        if self._packed:
            self._weight = torch.ops.mkldnn._reorder_linear_weight(self._weight, _ROWS)

    def __call__(self, x: Tensor) -> Tensor:
        if self._packed:
            packed: Tensor = torch.ops.mkldnn._linear_pointwise(
                x, self._weight, self._bias, self._then, [], "none"
            )
            return packed
        plain = functional.linear(x, self._weight, self._bias)
        return functional.gelu(plain) if self._then == "gelu" else plain


def even_shares(lengths: Sequence[int], most: int, least: int) -> list[list[int]]:
    """Rows in at most `most` groups of about as many tokens, longest rows first.

    least: tokens that make another group worth it.
    """
    rows = sorted(range(len(lengths)), key=lambda row: -lengths[row])
    total = sum(lengths)
    number = max(1, min(most, total // least))
    shares: list[list[int]] = [[] for _ in range(number)]
    before = 0
    for row in rows:
        shares[before * number // total].append(row)
        before += lengths[row]
    return [share for share in shares if share]


def _lone_threads(number: int) -> ThreadPoolExecutor:
    """Threads whose calls of torch use no others."""
    before = torch.get_num_threads()
    started = Barrier(number)

    def start() -> None:
        torch.get_num_threads()  # it takes over the process's number here, or later in place of 1
        torch.set_num_threads(1)
        started.wait()

    pool = ThreadPoolExecutor(number, thread_name_prefix="embedder")
    wait([pool.submit(start) for _ in range(number)])
    torch.set_num_threads(before)  # the process's number again, from which other threads start
    return pool


def _can_pack(dtype: torch.dtype) -> bool:
    """What torch's own compiler asks before it packs."""
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    return dtype == torch.float32 or bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
