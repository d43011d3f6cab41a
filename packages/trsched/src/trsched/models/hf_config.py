"""What a Hugging Face checkpoint's `config.json` says of the model's size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from trsched.errors import ConfigError

_DTYPE_BYTES = {"bfloat16": 2, "float16": 2, "float32": 2}
"""As SGLang loads them where it is told `auto`: float32 checkpoints become float16."""

_DENSE = frozenset({"llama", "mistral", "qwen2", "qwen3"})
"""Model types whose parameters `weight_bytes` can count."""


class HfConfig(msgspec.Struct, frozen=True):
    """The fields of `config.json` that matter here; others are left alone.

    vocab_size: rows of the LM head, often more than there are tokens.
    """

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    max_position_embeddings: int
    intermediate_size: int = 0
    num_key_value_heads: int | None = None
    head_dim: int | None = None
    tie_word_embeddings: bool = False
    torch_dtype: str | None = None
    dtype: str | None = None
    model_type: str = ""
    eos_token_id: int | list[int] | None = None
    layer_types: list[str] | None = None
    kv_lora_rank: int | None = None
    quantization_config: dict[str, Any] | None = None

    @property
    def kv_heads(self) -> int:
        """Key and value heads of a layer."""
        return self.num_key_value_heads or self.num_attention_heads

    @property
    def head_size(self) -> int:
        """Numbers of a head."""
        return self.head_dim or self.hidden_size // self.num_attention_heads

    def dtype_bytes(self, dtype: str) -> int:
        """Bytes of a number; dtype `auto` is what the checkpoint says."""
        if dtype == "auto":
            return _DTYPE_BYTES.get(self.dtype or self.torch_dtype or "", 2)
        return 4 if dtype == "float32" else 2

    def kv_bytes_per_token(self, tp: int, number_bytes: int) -> int:
        """KV of one token in one of `tp` ranks: K and V of its heads in every layer.

        Where there are fewer heads than ranks, each head is held more than once.
        """
        heads = max(1, self.kv_heads // tp)
        return 2 * self.num_hidden_layers * heads * self.head_size * number_bytes

    def weight_bytes(self, number_bytes: int) -> int | None:
        """Of all ranks together; None for architectures (and formats) that are not counted here.

        Norms of single heads and biases are left out: less than a thousandth.
        """
        if self.model_type not in _DENSE or self.quantization_config is not None:
            return None
        hidden, head = self.hidden_size, self.head_size
        attention = 2 * hidden * head * (self.num_attention_heads + self.kv_heads)
        layer = attention + 3 * hidden * self.intermediate_size + 2 * hidden
        embeddings = self.vocab_size * hidden * (1 if self.tie_word_embeddings else 2)
        return (self.num_hidden_layers * layer + hidden + embeddings) * number_bytes


def read_hf_config(path: Path, field: str) -> HfConfig:
    """Raises ConfigError naming `field` for a file that is no such configuration.

    Also for models whose KV is not that of plain attention: its size could not be planned.
    """
    try:
        data = msgspec.json.decode(path.read_bytes())
        inner = data.get("text_config") if isinstance(data, dict) else None
        config = msgspec.convert(inner or data, HfConfig)
    except OSError as error:
        raise ConfigError(field, f"{path}: {error.strerror or error}") from error
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError) as error:
        raise ConfigError(field, f"{path}: {error}") from error
    sizes = (
        config.vocab_size,
        config.hidden_size,
        config.num_hidden_layers,
        config.num_attention_heads,
        config.max_position_embeddings,
        config.kv_heads,
        config.head_size,
    )
    if min(sizes) < 1:
        raise ConfigError(field, f"{path}: sizes must be positive")
    others = set(config.layer_types or ()) - {"full_attention"}
    if config.kv_lora_rank is not None or others:
        kind = "latent attention" if config.kv_lora_rank is not None else ", ".join(sorted(others))
        raise ConfigError(field, f"{path}: models with {kind} are not supported")
    return config
