"""The two models that a router is trained for, behind whatever engine runs them.

This package knows no engine. An installed package offers its engines by an entry point::

    [project.entry-points."trrouters.pairs"]
    trserve = "trserve.server.training_pair:open_training_pair"

called as ``open_training_pair(name, sequences=16, context=512)`` and returning a
:class:`TrainingPair`. Anything with the methods of :class:`PairEngine` will do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Protocol

from trrouters.errors import RouterError

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from trrouters.model_identity import ModelIdentity
    from trrouters.route_result import LogitsOutput

ENTRY_POINT_GROUP = "trrouters.pairs"


class PairError(RouterError):
    """A pair of models cannot be opened, or its engines cannot show what training reads."""


class PairStep(Protocol):
    """Outputs of a step: row i of the outputs belongs to ``seqs[i]``; sequences may be missing."""

    @property
    def seqs(self) -> Sequence[int]: ...

    @property
    def logits_output(self) -> LogitsOutput: ...


class PairEngine(Protocol):
    """The part of the engine protocol (``trsched.engines.base.Engine``) that training uses."""

    def start(self, token_ids: Sequence[int], sampling: Any) -> int: ...
    def append(self, seq: int, token_ids: Sequence[int]) -> None: ...
    def step(self, seqs: Sequence[int]) -> PairStep: ...
    def truncate(self, seq: int, length: int) -> None: ...
    def release(self, seq: int) -> None: ...
    def close(self) -> None: ...


@dataclass(frozen=True)
class TrainingPair:
    """A small and a large model of one vocabulary, ready to run; a context manager.

    Attributes:
        models: who they are; a router trained here carries these identities.
        small: shows logits, hidden states and the embedding of its sampled (greedy) token.
        large: shows logits.
        greedy: the engines' sampling parameters for temperature 0.
        sequences: how many run side by side.
        context: most tokens of each.
        stop_ids: tokens that end an answer.
        prompt_ids: a user's question to the tokens that the models answer.
    """

    models: tuple[ModelIdentity, ModelIdentity]
    small: PairEngine
    large: PairEngine
    greedy: Any
    sequences: int
    context: int
    stop_ids: frozenset[int]
    prompt_ids: Callable[[str], list[int]]

    def __enter__(self) -> Self:
        return self

    def close(self) -> None:
        """Free both models."""
        self.small.close()
        self.large.close()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def open_pair(name: str, *, sequences: int = 16, context: int = 512) -> TrainingPair:
    """Open the pair that an installed package knows as ``name``: a preset, or a configuration file.

    Raises:
        PairError: when no package offers pairs, or the pair cannot be opened.
    """
    points = list(entry_points(group=ENTRY_POINT_GROUP))
    if not points:
        raise PairError("no installed package opens pairs of models: pip install 'trserve[demo]'")
    opener = min(points, key=lambda point: point.name)
    pair = opener.load()(name, sequences=sequences, context=context)
    if not isinstance(pair, TrainingPair):
        raise PairError(f"{opener.value} opened {pair!r}, not a pair of models")
    return pair
