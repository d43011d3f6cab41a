"""BERT's forward pass on the CPU, for few and short prompts: transformers' BertModel and the mean
over its tokens, with weights laid out for the processor once instead of at every call.
"""

from __future__ import annotations

from contextlib import contextmanager
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Literal

import torch
from sentence_transformers.sentence_transformer.modules import Normalize
from torch.nn import functional
from transformers import BertModel

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray
    from sentence_transformers import SentenceTransformer
    from torch import Tensor

_ROWS = 32  # tokens that weights are laid out for; others work as well

_ALONE = 128
"""So few tokens are computed by one thread. A second one saves little of them, and where cores are
busy the two wait for each other at each of some 40 products: 445 ms for a prompt instead of 25."""


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
    """A trained model's tokenizer and weights, in its own precision."""

    def __init__(self, model: BertModel, tokenizer: Any, max_tokens: int | None) -> None:
        """See `encoder_of`. max_tokens: what is longer is cut."""
        self._tokenizer = deepcopy(tokenizer.backend_tokenizer)
        self._tokenizer.enable_padding(pad_id=tokenizer.pad_token_id, pad_token=tokenizer.pad_token)
        self._tokenizer.enable_truncation(max_tokens or model.config.max_position_embeddings)
        embeddings = model.embeddings
        self._words = embeddings.word_embeddings.weight.detach()
        positions = embeddings.position_embeddings.weight.detach()
        self._positions = positions + embeddings.token_type_embeddings.weight.detach()[0]
        self._norm = _Norm(embeddings.LayerNorm)
        heads = model.config.num_attention_heads
        self._layers = [_Layer(layer, heads) for layer in model.encoder.layer]

    def __call__(self, prompts: list[str]) -> NDArray[np.float32]:
        """float32 [R, D], the mean over each prompt's tokens; all are padded to the longest."""
        encoded = self._tokenizer.encode_batch(prompts)
        tokens = torch.tensor([each.ids for each in encoded])
        mask = torch.tensor([each.attention_mask for each in encoded])
        with torch.inference_mode(), _threads(1 if tokens.numel() <= _ALONE else None):
            mean: NDArray[np.float32] = self._forward(tokens, mask).numpy()
        return mean

    def _forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """float32 [R, D]. tokens and mask: int64 [R, T]; mask is 0 for padding, else 1."""
        x = functional.embedding(tokens, self._words) + self._positions[: tokens.shape[1]]
        x = self._norm(x)
        padded = not bool(mask.all())
        seen = mask[:, None, None, :].bool() if padded else None
        for layer in self._layers:
            x = layer(x, seen)
        weight = mask[:, :, None].float()
        return (x.float() * weight).sum(1) / weight.sum(1)


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

    def __call__(self, x: Tensor, seen: Tensor | None) -> Tensor:
        rows, tokens, width = x.shape
        split = self._to_heads(x).view(rows, tokens, 3, self._heads, width // self._heads)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        heads = functional.scaled_dot_product_attention(query, key, value, attn_mask=seen)
        x = self._norm(self._from_heads(heads.transpose(1, 2).reshape(x.shape)) + x)
        return self._last_norm(self._down(self._up(x)) + x)


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


@contextmanager
def _threads(number: int | None) -> Iterator[None]:
    """That many in this thread's calls; None: as set."""
    if number is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _can_pack(dtype: torch.dtype) -> bool:
    """What torch's own compiler asks before it packs."""
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    return dtype == torch.float32 or bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
