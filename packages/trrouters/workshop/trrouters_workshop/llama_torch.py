"""A minimal Llama in torch whose parameters bear llama.cpp's names and layout.

``state_dict()`` keys equal GGUF tensor names (``blk.0.attn_q.weight``), and the rotary embedding
turns the interleaved pairs ``(2i, 2i + 1)`` that llama.cpp expects of this architecture. So weights
come from a GGUF, and go back into one, without renaming or permuting anything.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trrouters.training.extra import TrainingExtraError

try:
    import torch
    import torch.nn.functional as F
    from torch import nn
except ImportError as missing:
    raise TrainingExtraError("torch") from missing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

KeyValues = tuple["Tensor", "Tensor"]
"""One layer's keys and values, each ``[batch, kv_heads, positions, head_dim]``."""


@dataclass(frozen=True)
class LlamaShape:
    """The sizes that fix a Llama's tensors.

    The LM head is tied to the token embedding.

    Attributes:
        vocabulary: tokens.
        hidden: ``heads * head_dim``.
        layers: decoder layers.
        heads: of queries; a multiple of ``kv_heads``.
        kv_heads: of keys and values.
        feed_forward: width of the gated feed-forward.
        rope_base: of the rotary embedding.
        norm_epsilon: of the RMS norms.
        context: tokens.
    """

    vocabulary: int
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    feed_forward: int
    rope_base: float
    norm_epsilon: float
    context: int

    @property
    def head_dim(self) -> int:
        """Width of one attention head."""
        return self.hidden // self.heads


class DecoderLayer(nn.Module):
    """One decoder layer: attention and gated feed-forward, each behind an RMS norm."""

    def __init__(self, shape: LlamaShape) -> None:
        super().__init__()
        hidden, inner = shape.hidden, shape.feed_forward
        kv_width = shape.kv_heads * shape.head_dim
        self.shape = shape
        self.attn_norm = nn.RMSNorm(hidden, eps=shape.norm_epsilon)
        self.attn_q = nn.Linear(hidden, hidden, bias=False)
        self.attn_k = nn.Linear(hidden, kv_width, bias=False)
        self.attn_v = nn.Linear(hidden, kv_width, bias=False)
        self.attn_output = nn.Linear(hidden, hidden, bias=False)
        self.ffn_norm = nn.RMSNorm(hidden, eps=shape.norm_epsilon)
        self.ffn_gate = nn.Linear(hidden, inner, bias=False)
        self.ffn_up = nn.Linear(hidden, inner, bias=False)
        self.ffn_down = nn.Linear(inner, hidden, bias=False)

    def forward(self, x: Tensor, rotation: Tensor, cache: KeyValues | None, start: int) -> Tensor:
        """``x`` is ``[batch, tokens, hidden]``; ``cache`` is written from position ``start``."""
        batch, tokens, _ = x.shape
        y = self.attn_norm(x)
        q = _rotate(self._split(self.attn_q(y)), rotation)
        k = _rotate(self._split(self.attn_k(y)), rotation)
        v = self._split(self.attn_v(y))
        if cache is not None:
            end = start + tokens
            cache[0][:, :, start:end] = k
            cache[1][:, :, start:end] = v
            k, v = cache[0][:, :, :end], cache[1][:, :, :end]
        attended = self._attend(q, k, v)
        x = x + self.attn_output(attended.transpose(1, 2).reshape(batch, tokens, -1))
        y = self.ffn_norm(x)
        out: Tensor = x + self.ffn_down(F.silu(self.ffn_gate(y)) * self.ffn_up(y))
        return out

    def _split(self, x: Tensor) -> Tensor:
        batch, tokens, width = x.shape
        head_dim = self.shape.head_dim
        return x.view(batch, tokens, width // head_dim, head_dim).transpose(1, 2)

    def _attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        batch, heads, tokens, head_dim = q.shape
        if tokens == 1:  # the query heads of one KV head share its keys: fold them into rows
            folded = q.reshape(batch, k.shape[1], heads // k.shape[1], head_dim)
            return F.scaled_dot_product_attention(folded, k, v).reshape(batch, heads, 1, head_dim)
        if k.shape[2] == tokens:
            return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        past = k.shape[2] - tokens
        mask = torch.ones(tokens, k.shape[2], dtype=torch.bool).tril(past)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)


class Llama(nn.Module):
    """A Llama whose LM head is its token embedding."""

    rotation: Tensor

    def __init__(self, shape: LlamaShape) -> None:
        super().__init__()
        self.shape = shape
        self.token_embd = nn.Embedding(shape.vocabulary, shape.hidden)
        self.blk = nn.ModuleList(DecoderLayer(shape) for _ in range(shape.layers))
        self.output_norm = nn.RMSNorm(shape.hidden, eps=shape.norm_epsilon)
        self.register_buffer("rotation", _rotation(shape), persistent=False)

    def forward(
        self, tokens: Tensor, cache: Sequence[KeyValues] | None = None, start: int = 0
    ) -> Tensor:
        """The last hidden state, after the final norm.

        Args:
            tokens: ``[batch, tokens]``, int64; all rows stand at the same positions.
            cache: from :meth:`new_cache`; ``None`` runs without one (training).
            start: position of the first column.

        Returns:
            ``[batch, tokens, hidden]``, in the parameters' dtype (or autocast's).
        """
        x: Tensor = self.token_embd(tokens)
        rotation = self.rotation[start : start + tokens.shape[1]].to(x.dtype)
        for i, block in enumerate(self.blk):
            x = block(x, rotation, None if cache is None else cache[i], start)
        out: Tensor = self.output_norm(x)
        return out

    def logits(self, hidden: Tensor) -> Tensor:
        """Scores over the vocabulary, ``[..., vocabulary]``, of hidden states ``[..., hidden]``."""
        return F.linear(hidden, self.token_embd.weight.to(hidden.dtype))

    def first_layers(self, layers: int) -> Llama:
        """A copy that keeps the first ``layers``, at least one and at most all of them.

        Raises:
            ValueError: outside that range.
        """
        if not 0 < layers <= self.shape.layers:
            raise ValueError(f"there are {self.shape.layers} layers, {layers} were asked for")
        shape = replace(self.shape, layers=layers)
        with torch.device("meta"):  # no time spent on random weights
            kept = Llama(shape)
        state = self.state_dict()
        kept.load_state_dict({name: state[name].clone() for name in kept.state_dict()}, assign=True)
        kept.rotation = self.rotation
        return kept

    def new_cache(self, batch: int, positions: int) -> list[KeyValues]:
        """Empty keys and values for ``batch`` sequences of at most ``positions`` tokens."""
        size = (batch, self.shape.kv_heads, positions, self.shape.head_dim)
        dtype = self.token_embd.weight.dtype
        return [(torch.zeros(size, dtype=dtype), torch.zeros(size, dtype=dtype)) for _ in self.blk]


def load_gguf(path: Path) -> Llama:
    """Read a Llama out of a GGUF, dequantising what is quantised.

    Args:
        path: a GGUF of architecture ``llama`` with a tied LM head.

    Returns:
        The model in float32.

    Raises:
        TrainingExtraError: without the ``gguf`` package.
        ValueError: when the file is another architecture or has an untied head.
    """
    try:
        from gguf import GGUFReader, dequantize
    except ImportError as missing:
        raise TrainingExtraError("gguf") from missing
    reader = GGUFReader(path)
    shape = read_shape(reader)
    with torch.device("meta"):
        model = Llama(shape)
    wanted = model.state_dict()
    tensors = {t.name: t for t in reader.tensors}
    if "output.weight" in tensors:
        raise ValueError(f"{path} has an untied LM head; only tied heads are supported")
    if absent := sorted(set(wanted) - set(tensors)):
        raise ValueError(f"{path} lacks tensors, first of them {absent[0]!r}")
    state = {
        name: torch.tensor(dequantize(tensors[name].data, tensors[name].tensor_type))
        for name in wanted
    }
    model.load_state_dict(state, assign=True)
    model.rotation = _rotation(shape)
    return model


def read_shape(reader: Any) -> LlamaShape:
    """Sizes from an open ``gguf.GGUFReader``; ``ValueError`` if it is not a Llama."""

    def value(key: str) -> Any:
        field = reader.get_field(key)
        if field is None:
            raise ValueError(f"the GGUF lacks the key {key!r}")
        return field.contents()

    if (architecture := value("general.architecture")) != "llama":
        raise ValueError(f"the GGUF's architecture is {architecture!r}, not 'llama'")
    return LlamaShape(
        vocabulary=int(value("llama.vocab_size")),
        hidden=int(value("llama.embedding_length")),
        layers=int(value("llama.block_count")),
        heads=int(value("llama.attention.head_count")),
        kv_heads=int(value("llama.attention.head_count_kv")),
        feed_forward=int(value("llama.feed_forward_length")),
        rope_base=float(value("llama.rope.freq_base")),
        norm_epsilon=float(value("llama.attention.layer_norm_rms_epsilon")),
        context=int(value("llama.context_length")),
    )


def _rotation(shape: LlamaShape) -> Tensor:
    """Cosines and sines, ``[context, 2, head_dim / 2]``, float32."""
    frequency = shape.rope_base ** (-torch.arange(0, shape.head_dim, 2) / shape.head_dim)
    angle = torch.arange(shape.context)[:, None] * frequency
    return torch.stack((angle.cos(), angle.sin()), dim=1)


def _rotate(x: Tensor, rotation: Tensor) -> Tensor:
    """Turn the pairs ``(2i, 2i + 1)`` of ``x``, ``[batch, heads, tokens, head_dim]``."""
    even, odd = x[..., 0::2], x[..., 1::2]
    cos, sin = rotation[:, 0], rotation[:, 1]
    turned = torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1)
    return turned.flatten(-2).to(x.dtype)
