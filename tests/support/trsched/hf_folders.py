"""Small Hugging Face checkpoints: a trained byte-level tokenizer, configurations, no weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tokenizers", reason="trsched[huggingface] is not installed")

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers
from tokenizers.trainers import BpeTrainer

CORPUS = [
    "the quick brown fox jumps over the lazy dog",
    "a router sends each token to a small or a large model",
    "Grüße aus Köln, こんにちは世界, 🙂🙃 привет",
    "def f(x):\n    return x + 1\n",
]
CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{{ '<|im_start|>assistant\n' }}"
)
END = {"__type": "AddedToken", "content": "<|im_end|>", "special": True}
"""How older versions of transformers write a token; newer ones write its text."""

ROWS = 320
"""Rows of the LM head: more than there are tokens, as in Qwen's models."""

CONFIG: dict[str, Any] = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "vocab_size": ROWS,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 512,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
    "eos_token_id": 258,
}


def byte_level_tokenizer(extra: tuple[str, ...] = ()) -> Tokenizer:
    """256 bytes, the three of CONTROL, `<think>` (an added token that is text), some merges.

    extra: more added tokens at the end.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = BpeTrainer(vocab_size=290, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.add_special_tokens(CONTROL)
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in ("<think>", *extra)])
    return tokenizer


def hf_folder(
    folder: Path,
    tokenizer: Tokenizer | None = None,
    *,
    weights: bytes | None = b"weights",
    config: dict[str, Any] | None = None,
    generation: dict[str, Any] | None = None,
    settings: dict[str, Any] | None = None,
) -> Path:
    """Write a checkpoint; config, generation, settings: what to change in those files."""
    tokenizer = byte_level_tokenizer() if tokenizer is None else tokenizer
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    ends = [tokenizer.token_to_id(text) for text in ("<|im_end|>", "<|endoftext|>")]
    _write(folder / "config.json", CONFIG | (config or {}))
    _write(folder / "generation_config.json", {"eos_token_id": ends} | (generation or {}))
    _write(
        folder / "tokenizer_config.json",
        {"bos_token": None, "eos_token": END, "chat_template": TEMPLATE} | (settings or {}),
    )
    if weights is not None:
        (folder / "model.safetensors").write_bytes(weights)
    return folder


def _write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content), encoding="utf-8")
