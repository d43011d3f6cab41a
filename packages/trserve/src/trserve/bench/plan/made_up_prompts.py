"""Prompts of about so many tokens, for any model; no two begin alike, so that no cache helps."""

from __future__ import annotations

import numpy as np

_WORDS = (
    "time year people way day man thing woman life child world school state family student "
    "group country problem hand part place case week company system program question work "
    "number night point home water room mother area money story fact month lot right study "
    "book eye job word business issue side kind head house service friend father power hour "
    "game line end member law car city community name team minute idea body back parent face "
    "others level office door health person art war history party result change morning "
    "reason research moment air teacher force education foot boy age policy music market "
    "sense plan interest death effect use class control care field role effort rate heart "
    "drug show leader light voice mind"
)
WORDS = _WORDS.split()
"""Each, with the space before it, is one token in SmolLM2's vocabulary, and in all of those that
llama.cpp has for its tests (GPT-2, Llama, Qwen, Gemma, DeepSeek, Falcon, …).
"""

_OWN = 16  # words that begin a prompt and are drawn for it alone
_SHARED = 1 << 16  # words drawn once; prompts go on with a piece of them


class MadeUpPrompts:
    """The same seed gives the same prompts, in the order in which they are asked for."""

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)
        self._shared = self._draw(_SHARED)

    def text(self, tokens: int) -> str:
        """So many words; at least one. Cheap also where it is long."""
        words = self._draw(min(tokens, _OWN))
        start = int(self._generator.integers(_SHARED))
        while (lacking := tokens - len(words)) > 0:
            words += self._shared[start : start + lacking]
            start = 0
        return " ".join(words)

    def _draw(self, n: int) -> list[str]:
        return [WORDS[i] for i in self._generator.integers(len(WORDS), size=n)]
