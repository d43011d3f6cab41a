"""How closely a small model follows the large one along the large one's own greedy answers.

The large model answers each prompt greedily; the small one reads the same tokens (teacher forced)
and at every answer position the two next-token distributions are compared. Both run in llama.cpp,
so what is measured is the file that is served.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from trrouters_workshop.llama_cpp_sequence import LlamaCppSequence
from trrouters_workshop.turns import chat_prompt, chat_turns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

PROMPTS = (
    "What is the capital of France?",
    "Write a short poem about the sea.",
    "Explain how photosynthesis works.",
    "List three uses of a hammer.",
    "What is 12 plus 30?",
    "Tell me a story about a fox.",
    "How do I boil an egg?",
    "Give me a Python function that reverses a list.",
    "Who wrote Hamlet?",
    "Why is the sky blue?",
    "Describe a sunset.",
    "What is gravity?",
    "Name five fruits.",
    "How do computers store numbers?",
    "What is democracy?",
    "Write an email asking for a day off.",
)
"""Questions of several kinds; together they give some two thousand positions."""


@dataclass(frozen=True)
class PromptAgreement:
    """One prompt's answer.

    Attributes:
        prompt: the question.
        positions: tokens of the answer.
        agreeing: those where both models' argmax is the same.
        kl_sum: sum of KL(large || small) over the positions, in nats.
    """

    prompt: str
    positions: int
    agreeing: int
    kl_sum: float


@dataclass(frozen=True)
class ModelAgreement:
    """A small model measured on several prompts."""

    prompts: tuple[PromptAgreement, ...]

    @property
    def positions(self) -> int:
        """Answer tokens compared."""
        return sum(p.positions for p in self.prompts)

    @property
    def share(self) -> float:
        """Share of positions where the small model's argmax is the large model's, 0 to 1."""
        return sum(p.agreeing for p in self.prompts) / self.positions

    @property
    def mean_kl(self) -> float:
        """Mean of KL(large || small) over the positions, in nats."""
        return sum(p.kl_sum for p in self.prompts) / self.positions


def measure(
    large: Path,
    small: Sequence[Path],
    *,
    prompts: Iterable[str] = PROMPTS,
    max_tokens: int = 200,
    threads: int = 2,
    done: Callable[[], None] = lambda: None,
) -> list[ModelAgreement]:
    """Measure several small models along one large model's answers.

    Args:
        large: GGUF of the model whose greedy answers are followed.
        small: GGUFs that share its vocabulary.
        prompts: user turns, put under the default system turn.
        max_tokens: longest answer, in tokens; an answer also ends with its turn.
        threads: for each model's forward pass.
        done: called after each prompt.

    Returns:
        One :class:`ModelAgreement` for each of ``small``, in order.

    Raises:
        TrainingExtraError: without llama-cpp-python.
        OSError: when a file cannot be loaded.
        ValueError: when a vocabulary's size differs, or an answer would exceed 2,048 tokens.
    """
    rows: list[list[PromptAgreement]] = [[] for _ in small]
    with ExitStack() as stack:
        teacher = stack.enter_context(LlamaCppSequence(large, context=2048, threads=threads))
        students = [
            stack.enter_context(LlamaCppSequence(path, context=2048, threads=threads))
            for path in small
        ]
        for path, student in zip(small, students, strict=True):
            if student.size != teacher.size:
                raise ValueError(f"{path} has {student.size} tokens, {large} has {teacher.size}")
        for prompt in prompts:
            tokens, start, logits = _answer(teacher, prompt, max_tokens)
            wanted = _log_softmax(logits)
            for student, row in zip(students, rows, strict=True):
                student.reset()
                given = student.extend(tokens)[start - 1 :]
                row.append(_compare(prompt, wanted, given))
            done()
    return [ModelAgreement(tuple(row)) for row in rows]


def share_difference(
    first: ModelAgreement, second: ModelAgreement, *, draws: int = 10_000, seed: int = 0
) -> tuple[float, float, float]:
    """``first.share - second.share`` with a paired bootstrap interval.

    Whole prompts are drawn, because the positions of one answer are not independent.

    Returns:
        The difference and the ends of its central 95 % interval.

    Raises:
        ValueError: when the two were not measured on the same positions.
    """
    if [(p.prompt, p.positions) for p in first.prompts] != [
        (p.prompt, p.positions) for p in second.prompts
    ]:
        raise ValueError("the two agreements were measured on different positions")
    count = np.array([p.positions for p in first.prompts])
    gain = np.array([p.agreeing for p in first.prompts]) - [p.agreeing for p in second.prompts]
    drawn = np.random.default_rng(seed).integers(len(count), size=(draws, len(count)))
    differences = gain[drawn].sum(axis=1) / count[drawn].sum(axis=1)
    low, high = np.quantile(differences, (0.025, 0.975))
    return float(gain.sum() / count.sum()), float(low), float(high)


def _answer(
    model: LlamaCppSequence, prompt: str, max_tokens: int
) -> tuple[list[int], int, NDArray[np.float32]]:
    """Tokens read, the answer's start in them, and the logits ``[answer, size]`` that chose it."""
    turns = chat_turns(model.tokenize)
    tokens = model.tokenize(chat_prompt(prompt))
    start = len(tokens)
    model.reset()
    logits = [model.extend(tokens)[-1]]
    while (token := int(logits[-1].argmax())) not in turns.stops and len(logits) < max_tokens:
        tokens.append(token)
        logits.append(model.extend([token])[0])
    return tokens, start, np.stack(logits)


def _compare(
    prompt: str, wanted: NDArray[np.float32], given: NDArray[np.float32]
) -> PromptAgreement:
    """Compare the large model's log probabilities with the small one's logits, position by row."""
    q = _log_softmax(given)
    return PromptAgreement(
        prompt=prompt,
        positions=len(wanted),
        agreeing=int((wanted.argmax(axis=1) == given.argmax(axis=1)).sum()),
        kl_sum=float((np.exp(wanted) * (wanted - q)).sum(dtype=np.float64)),
    )


def _log_softmax(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    shifted = logits - logits.max(axis=1, keepdims=True)
    normal: NDArray[np.float32] = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return normal
