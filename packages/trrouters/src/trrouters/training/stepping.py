"""Step engines until every sequence has shown its outputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trrouters.training.pair import PairError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from trrouters.training.pair import PairEngine


@dataclass(frozen=True)
class Shown:
    """Outputs for one sequence: ``[vocab]``, and ``[hidden]`` twice where the engine shows them."""

    logits: Tensor
    hidden_states: Tensor | None
    token_embeddings: Tensor | None


def step_all(engine: PairEngine, seqs: Sequence[int]) -> dict[int, Shown]:
    """Step until each of ``seqs`` has sampled once (long prompts take several steps).

    Raises:
        PairError: when the engine shows no logits.
    """
    shown: dict[int, Shown] = {}
    while missing := [seq for seq in seqs if seq not in shown]:
        step = engine.step(missing)
        outputs = step.logits_output
        if not step.seqs:  # all are in the middle of a prompt: there is nothing to show
            continue
        if outputs.next_token_logits is None:
            raise PairError("the engine shows no logits; routers cannot be trained on it")
        for row, seq in enumerate(step.seqs):
            shown[seq] = Shown(
                outputs.next_token_logits[row].clone(),
                _row(outputs.hidden_states, row),
                _row(outputs.token_embeddings, row),
            )
    return shown


def _row(tensor: Tensor | None, row: int) -> Tensor | None:
    return None if tensor is None else tensor[row].clone()
