"""Which of the small model's other tokens would change what the large model goes on to say.

R2R (arXiv 2505.21600, section 3) lets the large model continue from both tokens and a judge compare
the sentences. Here the large model is its own judge: a differing token is *neutral* when, after it,
the large model greedily says the same next tokens as before, and *divergent* when it doesn't.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trrouters.training.stepping import step_all

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trrouters.training.pair import PairEngine


@dataclass
class AnswerTrace:
    """One answer of the large model, and the small model's token at each of its positions.

    Attributes:
        seq: the large engine's sequence; holds at least prompt and tokens up to the last one.
        start: tokens of the prompt.
        tokens: the answer, with its stop token if it has ended.
        small_tokens: as many.
        ended: whether a stop token ended it (else it was cut off).
    """

    seq: int
    start: int
    tokens: Sequence[int]
    small_tokens: Sequence[int]
    ended: bool


def label_divergent(
    large: PairEngine,
    traces: Sequence[AnswerTrace],
    *,
    horizon: int,
    stop_ids: frozenset[int],
) -> list[list[int]]:
    """Label every position of every trace: 1 divergent, 0 not, -1 cut off before it showed.

    Positions are tried from the last to the first, each by cutting the sequence back and appending
    the small model's token, so that no prefix is read twice; traces run side by side. What the
    sequences hold afterwards is of no use.

    Args:
        large: runs the traces' sequences.
        traces: answers.
        horizon: tokens after the differing one that must be the same.
        stop_ids: tokens that end an answer.

    Returns:
        For each trace one label a token.
    """
    labels = [[0] * len(trace.tokens) for trace in traces]
    waiting = [
        _Tries(trace, label, horizon, stop_ids) for trace, label in zip(traces, labels, strict=True)
    ]
    running = [tries for tries in waiting if tries.next(large)]
    while running:
        said = step_all(large, [tries.trace.seq for tries in running])
        for tries in running:
            logits = said[tries.trace.seq].logits
            tries.hear(large, int(logits.argmax()))
        running = [tries for tries in running if tries.busy or tries.next(large)]
    return labels


class _Tries:
    """The differing positions of one trace, last first; one is tried at a time."""

    def __init__(
        self, trace: AnswerTrace, labels: list[int], horizon: int, stop_ids: frozenset[int]
    ) -> None:
        self.trace = trace
        self.busy = False
        self._labels = labels
        self._horizon = horizon
        self._stop_ids = stop_ids
        differing = zip(trace.tokens, trace.small_tokens, strict=True)
        self._positions = [i for i, (token, small) in enumerate(differing) if token != small]
        self._position = self._heard = 0

    def next(self, large: PairEngine) -> bool:
        """Set up the next position that needs the model; False when none is left."""
        trace = self.trace
        while self._positions:
            self._position = position = self._positions.pop()
            both = {trace.tokens[position], trace.small_tokens[position]}
            if stops := both & self._stop_ids:
                self._label(int(stops != both))  # 1: one answer ends here, the other goes on
                continue
            if position + 1 == len(trace.tokens):
                self._label(-1)
                continue
            large.truncate(trace.seq, trace.start + position)
            large.append(trace.seq, [trace.small_tokens[position]])
            self._heard = 0
            self.busy = True
            return True
        return False

    def hear(self, large: PairEngine, token: int) -> None:
        """The large model's next token after the small one's."""
        trace = self.trace
        expected = self._position + 1 + self._heard
        self._heard += 1
        if token != trace.tokens[expected]:
            self._label(1)
        elif self._heard == self._horizon or (expected + 1 == len(trace.tokens) and trace.ended):
            self._label(0)
        elif expected + 1 == len(trace.tokens):
            self._label(-1)
        else:
            large.append(trace.seq, [token])

    def _label(self, label: int) -> None:
        self._labels[self._position] = label
        self.busy = False
