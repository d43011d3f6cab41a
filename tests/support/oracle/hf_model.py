"""A Hugging Face checkpoint alone: one sequence, no batching, no cache; draws as SGLang does."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tests.support.oracle.reference_routers import Sight
from tests.support.sglang.seeded_draw import seeded_draw
from tests.support.sglang.tiny_models import Reference, Row
from trsched.request import SamplingParams


class HfModel:
    """Remembers, in `closest`, how little the logits would have had to differ for other tokens.

    sight: what a trained router sees of the last proposal.
    """

    sight: Sight

    def __init__(self, reference: Reference, index: int) -> None:
        self.closest = math.inf
        self._reference = reference
        self._index = index
        self._rows: dict[tuple[int, ...], Row] = {}

    def propose(
        self, tokens: Sequence[int], params: SamplingParams
    ) -> tuple[int, NDArray[np.float32]]:
        row = self._row(tuple(tokens))
        logits: NDArray[np.float32] = row.logits.numpy()
        drawn = seeded_draw(logits, params, len(tokens), self._index)
        self.closest = min(self.closest, drawn.margin)
        embedding = self._reference.embeddings[drawn.token]
        parts = (row.logits, row.hidden, embedding)
        self.sight = Sight(*(part.numpy().astype(np.float64) for part in parts))
        return drawn.token, logits

    def _row(self, tokens: tuple[int, ...]) -> Row:
        if tokens not in self._rows:
            self._rows[tokens] = self._reference(tokens)
        return self._rows[tokens]
