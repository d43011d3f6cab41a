"""The calls of models that lead to a recorded response, so that another system can repeat them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

Flow = Literal["one_token_visits", "r_stitch", "me"]
"""What an algorithm does with tokens at hand-overs.

one_token_visits: R2R, CITER, Co-LLM and Bernoulli. Each visit of the large model follows a step of
the small one whose token is dropped. r_stitch: only the way from the small model to the large one
drops a token. me: nothing is dropped, and the next model is known before the step.
"""


@dataclass(frozen=True, slots=True)
class Visit:
    """A model decodes `count` tokens, from output position `position` on, and they stand or not.

    More than one only where nobody needs to see one of them before the next is made.
    """

    model: int
    position: int
    count: int
    stands: bool


def visits(models: Sequence[int], flow: Flow, *, tokens_per_visit: int = 1) -> list[Visit]:
    """The calls behind a response whose tokens `models` made, in order.

    tokens_per_visit: what the large model makes before it hands back, in one_token_visits.

    For r_stitch they are the fewest possible: that the large model handed back and got the request
    again at once, the small model's token dropped, cannot be told from its having stayed.
    Raises ValueError for a model that the flow does not know.
    """
    known = range(max(models, default=0) + 1) if flow == "me" else range(2)
    if unknown := set(models).difference(known):
        raise ValueError(f"{flow} has no model {min(unknown)}")
    if flow == "me":
        return [Visit(model, start, count, True) for model, start, count in _runs(models)]
    return list(_pair_visits(models, tokens_per_visit if flow == "one_token_visits" else None))


def _pair_visits(models: Sequence[int], tokens_per_visit: int | None) -> Iterator[Visit]:
    """tokens_per_visit: None for visits that end by a look at each token, made one by one."""
    for model, start, count in _runs(models):
        size = 1 if model == 0 else (tokens_per_visit or 1)
        for position in range(start, start + count, size):
            if model == 1 and (tokens_per_visit is not None or position == start):
                yield Visit(0, position, 1, False)
            yield Visit(model, position, min(size, start + count - position), True)


def _runs(models: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """(model, first position, length) of each longest run of one model."""
    start = 0
    for model, run in groupby(models):
        count = sum(1 for _ in run)
        yield model, start, count
        start += count
