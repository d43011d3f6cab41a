"""Latencies of one engine by batch size and by tokens ingested, measured through its protocol."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from trsched.engines.base import Engine
from trsched.engines.clock import Clock
from trsched.request import SamplingParams
from trserve.tune.latency_profile import MeasuredPoint

EXTEND_TOKENS = (1, 2, 4, 8)
"""Tokens of each sequence in a step: 1 is a plain decode, a resumed request brings several."""

_ROUNDS = 4  # all points come up so often, so that a busy minute of the machine spoils no point
_WARM_UP = (3, 1)  # steps that don't count, in the first round and in later ones


@dataclass(frozen=True, slots=True)
class MeasurementPlan:
    """What to measure.

    context: tokens that each sequence holds.
    steps: that count, a point.
    """

    batches: Sequence[int]
    context: int
    steps: int

    @property
    def points(self) -> list[tuple[int, int]]:
        """(batch size, tokens of each sequence): all sizes, and extends at two of them."""
        sizes = dict.fromkeys((self.batches[0], self.batches[len(self.batches) // 2]))
        decodes = [(batch, 1) for batch in self.batches]
        return decodes + [(batch, k) for batch in sizes for k in EXTEND_TOKENS[1:]]

    @property
    def steps_by_round(self) -> list[int]:
        """Steps that count, of a point in each round."""
        rounds = min(_ROUNDS, self.steps)
        each, more = divmod(self.steps, rounds)
        return [each + (turn < more) for turn in range(rounds)]


def measure(
    engine: Engine,
    wanted: MeasurementPlan,
    prompt: Sequence[int],
    sampling: SamplingParams,
    clock: Clock,
    advanced: Callable[[], None] = lambda: None,
) -> list[MeasuredPoint]:
    """Time steps of `engine`, whose sequences always hold `context` tokens before a step.

    prompt: token ids, at least one.
    advanced: called after each point of each round.
    """
    ids = _repeated(prompt, wanted.context + max(EXTEND_TOKENS))
    seqs = [engine.start(ids[: wanted.context], sampling) for _ in range(wanted.batches[-1])]
    try:
        _run(engine, seqs)
        seconds: dict[tuple[int, int], list[float]] = {point: [] for point in wanted.points}
        for turn, steps in enumerate(wanted.steps_by_round):
            warm_up = _WARM_UP[min(turn, 1)]
            for (batch, tokens), taken in seconds.items():
                suffix = ids[wanted.context :][:tokens]
                for step in range(warm_up + steps):
                    for seq in seqs[:batch]:
                        engine.truncate(seq, wanted.context)
                        engine.append(seq, suffix)
                    began = clock.now()
                    _run(engine, seqs[:batch])
                    if step >= warm_up:
                        taken.append(clock.now() - began)
                advanced()
    finally:
        for seq in seqs:
            engine.release(seq)
    return [_point(batch, tokens, taken) for (batch, tokens), taken in seconds.items()]


def _repeated(prompt: Sequence[int], length: int) -> list[int]:
    return (list(prompt) * (length // len(prompt) + 1))[:length]


def _run(engine: Engine, seqs: Sequence[int]) -> None:
    """Until all have sampled: a step for most, several for long prompts."""
    reading = set(seqs)
    while reading:
        reading -= set(engine.step(sorted(reading)).seqs)


def _point(batch: int, tokens: int, seconds: list[float]) -> MeasuredPoint:
    low, middle, high = (
        statistics.quantiles(seconds, n=4, method="inclusive") if len(seconds) > 1 else seconds * 3
    )
    return MeasuredPoint(batch, tokens, *(round(value * 1e3, 4) for value in (middle, low, high)))


def step_ms_by_size(points: Sequence[MeasuredPoint]) -> list[float]:
    """Latencies of plain decodes at batch sizes 1, 2, … up to the largest measured."""
    return by_size([(point.batch, point.ms) for point in points if point.tokens == 1])


def by_size(latencies: Sequence[tuple[int, float]]) -> list[float]:
    """Of (size, ms), a list for sizes 1, 2, … up to the largest; linear where a size is lacking.

    Below the smallest size given, its latency.
    """
    known = sorted(latencies)
    filled = [round(known[0][1], 4)] * known[0][0]
    for (size, ms), (next_size, next_ms) in pairwise(known):
        slope = (next_ms - ms) / (next_size - size)
        filled += [round(ms + slope * more, 4) for more in range(1, next_size - size + 1)]
    return filled


def extend_token_ms(points: Sequence[MeasuredPoint]) -> float:
    """Milliseconds for each further token that a step ingests, by least squares; never negative."""
    decode = {point.batch: point.ms for point in points if point.tokens == 1}
    further = [(p.batch * (p.tokens - 1), p.ms - decode[p.batch]) for p in points if p.tokens > 1]
    weight = sum(tokens**2 for tokens, _ in further)
    slope = sum(tokens * ms for tokens, ms in further) / weight if weight else 0.0
    return max(0.0, round(slope, 4))
