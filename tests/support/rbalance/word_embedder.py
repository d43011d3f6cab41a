"""An embedder without a model: prompts with words in common are near each other."""

from __future__ import annotations

import re
import zlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


class WordEmbedder:
    """Counts words in buckets; `seen` collects what it was asked for, call by call."""

    def __init__(self, dimension: int = 64, fingerprint: str = "words-64") -> None:
        self.name = "words"
        self.fingerprint = fingerprint
        self.dimension = dimension
        self.seen: list[list[str]] = []

    def embed(self, prompts: Sequence[str]) -> NDArray[np.float32]:
        self.seen.append(list(prompts))
        vectors = np.zeros((len(prompts), self.dimension), np.float32)
        for row, prompt in enumerate(prompts):
            for word in re.findall(r"\w+", prompt.lower()) or ["nothing"]:
                vectors[row, zlib.crc32(word.encode()) % self.dimension] += 1
        return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))
