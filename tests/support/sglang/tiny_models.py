"""Two random Qwen3 checkpoints of one tokenizer, made in seconds, and what they compute.

For tests of the sglang engine and of groups of such models. Needs transformers and tokenizers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import sglang_cpu_shims

VOCAB = 512
CONTEXT = 512
_TEXTS = (
    "the quick brown fox jumps over the lazy dog",
    "a router sends each token to a small or a large model",
    "hello world, this is a tiny test model for serving",
    "def f(x): return x + 1",
)


@dataclass(frozen=True, slots=True)
class Row:
    """What a model computes after a sequence: logits `[vocab]` and last hidden state `[hidden]`."""

    logits: torch.Tensor
    hidden: torch.Tensor


class Reference:
    """The same checkpoint in transformers, one sequence at a time and without any cache."""

    def __init__(self, folder: Path) -> None:
        sglang_cpu_shims.install()  # transformers imports torchvision
        from transformers import AutoModelForCausalLM

        self._model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        self.embeddings: torch.Tensor = self._model.get_input_embeddings().weight.detach()

    def __call__(self, token_ids: Sequence[int]) -> Row:
        """The row after these tokens."""
        with torch.no_grad():
            out = self._model(torch.tensor([list(token_ids)]), output_hidden_states=True)
        return Row(out.logits[0, -1], out.hidden_states[-1][0, -1])


def make_tokenizer(folder: Path) -> None:
    """Byte-level BPE of VOCAB tokens: 0 begins, 1 ends a text, 2 pads."""
    sglang_cpu_shims.install()
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB,
        special_tokens=["<s>", "</s>", "<pad>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([*_TEXTS] * 50, trainer)
    missing = VOCAB - tokenizer.get_vocab_size()
    tokenizer.add_tokens([f"<unused{i}>" for i in range(missing)])
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
        chat_template="{% for m in messages %}{{ m['role'] + ': ' + m['content'] + '\n' }}"
        "{% endfor %}assistant: ",
    ).save_pretrained(folder)


def make_model(
    folder: Path, *, seed: int, layers: int = 2, hidden: int = 64, extra_rows: int = 0
) -> Path:
    """A checkpoint with its tokenizer in `folder`.

    extra_rows: rows of the LM head beyond the tokenizer's VOCAB.
    """
    sglang_cpu_shims.install()
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=VOCAB + extra_rows,
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=CONTEXT,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=2,
        tie_word_embeddings=False,
    )
    model: Any = Qwen3ForCausalLM(config)
    model = model.to(torch.float32)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.15)
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder, safe_serialization=True)
    make_tokenizer(folder)
    return folder


def make_pair(folder: Path) -> tuple[Path, Path]:
    """A small and a larger model."""
    return (
        make_model(folder / "small", seed=1),
        make_model(folder / "large", seed=2, layers=3, hidden=96),
    )
