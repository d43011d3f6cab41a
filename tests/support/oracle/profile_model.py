"""A model of the `profile` engine, alone."""

from __future__ import annotations

from collections.abc import Sequence

from trsched.engines.profile import profile_token
from trsched.plan.config import ProfileModel
from trsched.request import SamplingParams


class SoloProfile:
    """Its tokens are a function of seed and position; it has no logits."""

    def __init__(self, model: ProfileModel, index: int) -> None:
        self._model = model
        self._index = index

    def propose(self, tokens: Sequence[int], params: SamplingParams) -> tuple[int, None]:
        return profile_token(self._model, self._index, params.seed, len(tokens)), None
