"""What the large model thinks of answers that others wrote, as its own engine computes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trrouters.training.pair import TrainingPair
from trrouters.training.stepping import step_all


@dataclass
class AnswerLikelihood:
    """One answer: the sum of its tokens' log-likelihoods (nats), and how many are the argmax."""

    log_likelihood: float = 0.0
    argmax_tokens: int = 0


def read(
    pair: TrainingPair, prompts: Sequence[list[int]], answers: Sequence[list[int]]
) -> list[AnswerLikelihood]:
    """Read every answer after its prompt, `pair.sequences` side by side, token by token.

    With the engine that also serves, so that the large model's own greedy answer is all argmax: the
    same weights with another KV format already disagree with it at one token in fifteen.
    """
    readings = [AnswerLikelihood() for _ in answers]
    for first in range(0, len(answers), pair.sequences):
        numbers = range(first, min(first + pair.sequences, len(answers)))
        seqs = {pair.large.start(prompts[i], pair.greedy): i for i in numbers}
        position = 0
        while live := [seq for seq, i in seqs.items() if position < len(answers[i])]:
            for seq, shown in step_all(pair.large, live).items():
                token = answers[seqs[seq]][position]
                reading = readings[seqs[seq]]
                reading.log_likelihood += float(shown.logits.double().log_softmax(-1)[token])
                reading.argmax_tokens += int(shown.logits.argmax()) == token
                pair.large.append(seq, [token])
            position += 1
        for seq in seqs:
            pair.large.release(seq)
    return readings
