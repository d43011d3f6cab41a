"""The fixed token strings of ChatML that open, hand over and close a turn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
"""The system turn SmolLM2's own chat template adds where a conversation has none."""


@dataclass(frozen=True)
class Turns:
    """Token ids around the text of a conversation.

    Attributes:
        opening: the system turn and the start of the user's.
        to_answer: ends the user's turn and starts the answer.
        to_user: what follows the answer's end token and starts the next user turn.
        end: the token that ends a turn.
        stops: tokens that end a turn when the model samples them.
    """

    opening: tuple[int, ...]
    to_answer: tuple[int, ...]
    to_user: tuple[int, ...]
    end: int
    stops: frozenset[int]


def chat_turns(tokenize: Callable[[str], list[int]]) -> Turns:
    """The turns of a model whose template is ChatML.

    Args:
        tokenize: text to ids, recognising special tokens and adding none.

    Raises:
        ValueError: when the vocabulary lacks ChatML's special tokens.
    """
    special = [tokenize(text) for text in ("<|im_end|>", "<|im_start|>", "<|endoftext|>")]
    if any(len(ids) != 1 for ids in special):
        raise ValueError("the vocabulary lacks ChatML's special tokens")
    (end,), _, _ = special
    return Turns(
        opening=tuple(tokenize(f"<|im_start|>system\n{SYSTEM}<|im_end|>\n<|im_start|>user\n")),
        to_answer=tuple(tokenize("<|im_end|>\n<|im_start|>assistant\n")),
        to_user=tuple(tokenize("\n<|im_start|>user\n")),
        end=end,
        stops=frozenset(ids[0] for ids in special),
    )


def chat_prompt(question: str) -> str:
    """One user turn under the default system turn, up to the answer's start."""
    return (
        f"<|im_start|>system\n{SYSTEM}<|im_end|>\n"
        f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"
    )
