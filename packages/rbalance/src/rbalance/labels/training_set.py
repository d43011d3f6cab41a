"""Labelled prompts as arrays: what predictors are fitted to and judged by."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rbalance.errors import ConfigError, TrainingError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from rbalance.labels.records import LabelledPrompt

CHARS_PER_TOKEN = 4.0
"""A rule of thumb for English and a byte-pair vocabulary; better each model's own ratio."""


@dataclass(frozen=True, slots=True, eq=False)
class TrainingSet:
    """N prompts and what M models made of them.

    quality: float32 [N, M], 0 to 1, NaN where a model has no score.
    length: float32 [N, M], output tokens, NaN where unknown.
    """

    models: tuple[str, ...]
    prompts: tuple[str, ...]
    quality: NDArray[np.float32]
    length: NDArray[np.float32]

    def __post_init__(self) -> None:
        """Raises TrainingError: no prompt, no model, a model without scores, impossible numbers."""
        shape = (len(self.prompts), len(self.models))
        if not all(shape):
            raise TrainingError(f"nothing to learn from: {shape[0]} prompts, {shape[1]} models")
        if self.quality.shape != shape or self.length.shape != shape:
            raise TrainingError(
                f"labels of shape {self.quality.shape} and {self.length.shape}, not {shape}"
            )
        self._check(self.quality, "score", low=0.0, high=1.0)
        self._check(self.length, "answer length", low=0.0, high=float(np.finfo(np.float32).max))
        unlabelled = np.isnan(self.quality).all(axis=0)
        if unlabelled.any():
            name = self.models[int(unlabelled.argmax())]
            raise TrainingError(f"model {name!r} has no score for any prompt; leave it out")

    def _check(self, labels: NDArray[np.float32], what: str, low: float, high: float) -> None:
        wrong = (labels < low) | (labels > high)  # NaN is neither
        if wrong.any():
            row, column = np.argwhere(wrong)[0]
            raise TrainingError(
                f"prompt {row}: {what} {labels[row, column]} of model {self.models[column]!r} "
                f"is not from {low:g} to {high:g}"
            )

    @classmethod
    def from_records(
        cls,
        records: Iterable[LabelledPrompt],
        models: Sequence[str] | None = None,
        chars_per_token: float | Mapping[str, float] = CHARS_PER_TOKEN,
    ) -> TrainingSet:
        """Take the labels of `models` (None: of every model that occurs, by name).

        Prompts without a score for any of them are left out. Records have lengths in characters;
        tokens are characters / chars_per_token, one ratio or one by model (others: 4).

        Raises TrainingError: nothing left, or a model that no record scores. ConfigError: a ratio
        that is not above 0, or one for a model that is not there.
        """
        kept = list(records)
        seen = {name for record in kept for name in record.scores}
        names = tuple(sorted(seen) if models is None else dict.fromkeys(models))
        if kept and (unknown := [name for name in names if name not in seen]):
            raise TrainingError(
                f"no prompt has a score of model {unknown[0]!r}; "
                f"there are scores of {', '.join(sorted(seen))}"
            )
        ratios = _ratios(names, chars_per_token)
        kept = [record for record in kept if not record.scores.keys().isdisjoint(names)]
        quality = np.full((len(kept), len(names)), np.nan, np.float32)
        length = quality.copy()
        for row, record in enumerate(kept):
            for column, name in enumerate(names):
                quality[row, column] = record.scores.get(name, np.nan)
                length[row, column] = record.out_chars.get(name, np.nan)
        prompts = tuple(record.prompt for record in kept)
        return cls(names, prompts, quality, length / ratios)

    def take(self, rows: NDArray[np.bool_] | NDArray[np.intp]) -> TrainingSet:
        """The prompts of some rows. Raises TrainingError if they leave a model without scores."""
        chosen = np.arange(len(self.prompts))[rows]
        prompts = tuple(self.prompts[row] for row in chosen)
        return TrainingSet(self.models, prompts, self.quality[chosen], self.length[chosen])


def prompt_digests(prompts: Sequence[str]) -> NDArray[np.uint64]:
    """uint64 [N]: a digest of each prompt's text, the same everywhere and always."""
    raw = b"".join(hashlib.blake2b(_bytes(prompt), digest_size=8).digest() for prompt in prompts)
    return np.frombuffer(raw, np.dtype("<u8")).astype(np.uint64)


def held_out(prompts: Sequence[str], share: float, seed: int = 0) -> NDArray[np.bool_]:
    """Choose about `share` of the prompts by their text alone: bool [N].

    So equal prompts are on one side, and a file's order or other prompts change nothing.

    Raises ConfigError: share is not from 0 to below 1.
    """
    if not 0.0 <= share < 1.0:
        raise ConfigError("hold_out", f"must be from 0 to below 1, not {share}")
    salted = prompt_digests([f"{seed}:{prompt}" for prompt in prompts])
    return salted.astype(np.float64) < share * 2.0**64


def _bytes(prompt: str) -> bytes:
    return prompt.encode("utf-8", "surrogatepass")


def _ratios(names: Sequence[str], given: float | Mapping[str, float]) -> NDArray[np.float32]:
    if not isinstance(given, Mapping):
        given = dict.fromkeys(names, given)
    elif unknown := sorted(given.keys() - set(names)):
        raise ConfigError("chars_per_token", f"no model is called {unknown[0]!r}")
    ratios = [given.get(name, CHARS_PER_TOKEN) for name in names]
    for name, ratio in zip(names, ratios, strict=True):
        if not 0.0 < ratio < np.inf:
            raise ConfigError("chars_per_token", f"must be above 0, not {ratio} ({name})")
    return np.array(ratios, np.float32)
