"""A pair of models whose tokens are a plain function of the tokens before, and its engines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from trrouters import LogitsOutput, ModelIdentity
from trrouters.route_result import Tensor
from trrouters.training.pair import PairEngine, TrainingPair

Rule = Callable[[Sequence[int]], int]
"""The greedy token after these tokens."""

HIDDEN = 6


def rule(seed: int, vocab: int, order: int = 2) -> Rule:
    """Tokens drawn by the last `order` ones: the smaller, the sooner two texts agree again."""

    def token(history: Sequence[int]) -> int:
        return int(np.random.default_rng([seed, *history[-order:]]).integers(vocab))

    return token


def mostly(other: Rule, seed: int, vocab: int, agreement: float) -> Rule:
    """`other`'s tokens, but for a share of the positions."""

    def token(history: Sequence[int]) -> int:
        rng = np.random.default_rng([seed, *history])
        return other(history) if rng.random() < agreement else int(rng.integers(vocab))

    return token


def plain_logits(model: Rule, history: Sequence[int], vocab: int) -> torch.Tensor:
    """What a scripted engine shows: noise, with the rule's token on top."""
    logits = np.random.default_rng([7, *history]).normal(0, 2, vocab)
    logits[model(history)] = logits.max() + 1
    return torch.from_numpy(logits.astype(np.float32))


def plain_hidden(history: Sequence[int]) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng([8, *history]).normal(0, 1, HIDDEN)).float()


def plain_embedding(token: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng([9, token]).normal(0, 1, HIDDEN)).float()


@dataclass(frozen=True)
class ScriptedStep:
    seqs: Sequence[int]
    logits_output: LogitsOutput


@dataclass
class ScriptedEngine(PairEngine):
    """Runs `model`; checks that it is used as an engine must be.

    budget: tokens that a step runs at most, so that long prompts take several steps and sequences
    are missing from them (and nothing is shown where all are). shows: which outputs. fails_at: the
    step that raises. Outputs are spoilt by the next step, as an engine's buffers are.
    """

    model: Rule
    vocab: int
    sequences: int = 4
    budget: int = 7
    shows: frozenset[str] = frozenset({"logits", "hidden_states", "token_embedding"})
    fails_at: int | None = None
    failure: BaseException = field(default_factory=lambda: RuntimeError("the engine died"))
    steps: int = 0
    closed: bool = False
    held: dict[int, list[int]] = field(default_factory=dict)
    _run: dict[int, int] = field(default_factory=dict)
    _next: int = 100
    _shown: list[torch.Tensor] = field(default_factory=list)

    def start(self, token_ids: Sequence[int], sampling: object) -> int:
        assert sampling == "greedy"
        assert len(self.held) < self.sequences, "no sequence is free"
        self._next += 1
        self.held[self._next], self._run[self._next] = list(token_ids), 0
        return self._next

    def append(self, seq: int, token_ids: Sequence[int]) -> None:
        self.held[seq].extend(token_ids)

    def truncate(self, seq: int, length: int) -> None:
        assert 0 <= length <= len(self.held[seq])
        del self.held[seq][length:]
        self._run[seq] = min(self._run[seq], length)

    def release(self, seq: int) -> None:
        del self.held[seq], self._run[seq]

    def close(self) -> None:
        self.closed = True

    def step(self, seqs: Sequence[int]) -> ScriptedStep:
        assert seqs
        assert not self.closed
        self.steps += 1
        if self.steps == self.fails_at:
            raise self.failure
        for tensor in self._shown:
            tensor.fill_(float("nan"))
        budget, sampled = self.budget, []
        for seq in seqs:
            waiting = len(self.held[seq]) - self._run[seq]
            assert waiting > 0, "nothing to run"
            taken = min(waiting, budget)
            budget -= taken
            self._run[seq] += taken
            if taken == waiting:
                sampled.append(seq)
        sampled.reverse()  # row i belongs to seqs[i], in any order
        return ScriptedStep(sampled, self._outputs([self.held[seq] for seq in sampled]))

    def _outputs(self, histories: Sequence[Sequence[int]]) -> LogitsOutput:
        def rows(name: str, made: Callable[[Sequence[int]], torch.Tensor]) -> Tensor | None:
            if name not in self.shows or not histories:
                return None
            return torch.stack([*map(made, histories)])

        outputs = LogitsOutput(
            rows("logits", lambda seen: plain_logits(self.model, seen, self.vocab)),
            rows("hidden_states", plain_hidden),
            rows("token_embedding", lambda seen: plain_embedding(self.model(seen))),
        )
        shown = (outputs.next_token_logits, outputs.hidden_states, outputs.token_embeddings)
        self._shown = [tensor for tensor in shown if tensor is not None]
        return outputs


@dataclass(frozen=True)
class Scripted:
    """A pair, and its two engines as what they are."""

    pair: TrainingPair
    small: ScriptedEngine
    large: ScriptedEngine

    def released(self) -> bool:
        return not self.small.held and not self.large.held


def scripted_pair(
    large: Rule | None = None,
    small: Rule | None = None,
    *,
    vocab: int = 12,
    sequences: int = 3,
    context: int = 40,
    budget: int = 7,
    stop_ids: frozenset[int] = frozenset({0}),
    fingerprints: tuple[str, str] = ("small-1", "large-1"),
) -> Scripted:
    """A prompt's tokens are its characters, none of them the stop token."""
    large = large or rule(1, vocab)
    small = small or mostly(large, 2, vocab, 0.6)
    engines = [ScriptedEngine(model, vocab, sequences, budget) for model in (small, large)]
    pair = TrainingPair(
        models=(
            ModelIdentity("small", fingerprints[0], HIDDEN),
            ModelIdentity("large", fingerprints[1]),
        ),
        small=engines[0],
        large=engines[1],
        greedy="greedy",
        sequences=sequences,
        context=context,
        stop_ids=stop_ids,
        prompt_ids=lambda text: [1 + ord(character) % (vocab - 1) for character in text],
    )
    return Scripted(pair, engines[0], engines[1])


def greedy_answer(
    model: Rule, prompt: Sequence[int], longest: int, stop_ids: frozenset[int]
) -> list[int]:
    answer: list[int] = []
    while len(answer) < longest and not (answer and answer[-1] in stop_ids):
        answer.append(model([*prompt, *answer]))
    return answer


def plain_labels(
    large: Rule,
    prompt: Sequence[int],
    answer: Sequence[int],
    small_tokens: Sequence[int],
    horizon: int,
    stop_ids: frozenset[int],
) -> list[int]:
    """1 divergent, 0 neutral, -1 cut off: each position by itself, from its own prefix."""
    labels = []
    for i, (token, other) in enumerate(zip(answer, small_tokens, strict=True)):
        after = list(answer[i + 1 : i + 1 + horizon])
        text = [*prompt, *answer[:i], other]
        for _ in after:
            text.append(large(text))
        said = text[len(prompt) + i + 1 :]
        if token == other:
            labels.append(0)
        elif token in stop_ids or other in stop_ids:
            labels.append(int(not (token in stop_ids and other in stop_ids)))
        elif said != after:
            labels.append(1)
        else:
            enough = len(after) == horizon or answer[-1] in stop_ids
            labels.append(0 if enough else -1)
    return labels
