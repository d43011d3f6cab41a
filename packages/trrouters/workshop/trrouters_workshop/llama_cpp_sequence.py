"""A GGUF opened in llama.cpp for measuring: tokenizer, vocabulary, logits of every position."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from trrouters.training.extra import TrainingExtraError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from numpy.typing import NDArray


@dataclass(frozen=True)
class TokenTable:
    """What two models must share for a token id to mean the same to both.

    Attributes:
        texts: of all ids, as the vocabulary writes them.
        kinds: llama.cpp's attribute bits.
        special: the ids of beginning, end, end of turn and padding, -1 where there is none.
    """

    texts: tuple[bytes, ...]
    kinds: tuple[int, ...]
    special: tuple[int, ...]


@cache
def llama_cpp_library() -> Any:
    """llama.cpp's C interface, its log switched off for this process.

    Raises:
        TrainingExtraError: without llama-cpp-python.
    """
    try:
        import llama_cpp.llama_cpp as library
    except ImportError as missing:
        raise TrainingExtraError("llama_cpp") from missing
    library.llama_log_set(_silence(library), ctypes.c_void_p(0))
    library.llama_backend_init()
    return library


@cache  # the C side keeps only the address, so the callback must live as long as the process
def _silence(library: Any) -> Any:
    def ignore(_level: int, _text: bytes, _data: object) -> None:
        return None

    return library.llama_log_callback(ignore)


class LlamaCppSequence:
    """One model and one sequence; a context manager.

    Args:
        path: a GGUF file.
        context: most tokens of the sequence; 0 loads the vocabulary alone.
        threads: for the forward pass.

    Raises:
        TrainingExtraError: without llama-cpp-python.
        OSError: when llama.cpp cannot load the file.
    """

    def __init__(self, path: Path, *, context: int = 1024, threads: int = 2) -> None:
        self._api = api = llama_cpp_library()
        parameters = api.llama_model_default_params()
        parameters.n_gpu_layers = 0
        parameters.vocab_only = context == 0
        self._model = api.llama_model_load_from_file(str(path).encode(), parameters)
        if not self._model:
            raise OSError(f"llama.cpp cannot load {path}")
        self._vocabulary = api.llama_model_get_vocab(self._model)
        self.size = int(api.llama_vocab_n_tokens(self._vocabulary))
        self._context: Any = None
        self._position = 0
        if context:
            self._open(context, threads)

    def _open(self, context: int, threads: int) -> None:
        api = self._api
        settings = api.llama_context_default_params()
        settings.n_ctx = settings.n_batch = context
        settings.n_ubatch = min(context, 512)
        settings.n_threads = settings.n_threads_batch = threads
        settings.flash_attn_type = api.LLAMA_FLASH_ATTN_TYPE_ENABLED
        self._context = api.llama_init_from_model(self._model, settings)
        if not self._context:
            raise OSError("llama.cpp cannot open a context")
        self._batch = api.llama_batch_init(context, 0, 1)

    def tokenize(self, text: str) -> list[int]:
        """Token ids; special tokens written out in the text are recognised, none is added."""
        data = text.encode()
        buffer = (self._api.llama_token * (len(data) + 8))()
        count = self._api.llama_tokenize(
            self._vocabulary, data, len(data), buffer, len(buffer), False, True
        )
        return [int(token) for token in buffer[:count]]

    def vocabulary(self) -> TokenTable:
        """Texts, kinds and special ids, for comparison with another model's."""
        api, vocabulary = self._api, self._vocabulary
        ids = range(self.size)
        special = (
            api.llama_vocab_bos(vocabulary),
            api.llama_vocab_eos(vocabulary),
            api.llama_vocab_eot(vocabulary),
            api.llama_vocab_pad(vocabulary),
        )
        return TokenTable(
            texts=tuple(api.llama_vocab_get_text(vocabulary, i) for i in ids),
            kinds=tuple(int(api.llama_vocab_get_attr(vocabulary, i)) for i in ids),
            special=tuple(int(token) for token in special),
        )

    def reset(self) -> None:
        """Forget the sequence."""
        self._api.llama_memory_seq_rm(self._api.llama_get_memory(self._context), 0, 0, -1)
        self._position = 0

    def extend(self, tokens: Sequence[int]) -> NDArray[np.float32]:
        """Append tokens and return the logits after each, ``[len(tokens), size]`` (a copy).

        Raises:
            ValueError: on no tokens, or more than the context still holds.
        """
        api, batch = self._api, self._batch
        room = int(api.llama_n_ctx(self._context)) - self._position
        if not 0 < len(tokens) <= room:
            raise ValueError(f"{len(tokens)} tokens to append, room for {room}")
        for i, token in enumerate(tokens):
            batch.token[i] = token
            batch.pos[i] = self._position + i
            batch.n_seq_id[i] = 1
            batch.seq_id[i][0] = 0
            batch.logits[i] = 1
        batch.n_tokens = len(tokens)
        if (status := api.llama_decode(self._context, batch)) != 0:
            raise RuntimeError(f"llama_decode returned {status}")
        self._position += len(tokens)
        pointer = api.llama_get_logits(self._context)
        return np.ctypeslib.as_array(pointer, shape=(len(tokens), self.size)).copy()

    def close(self) -> None:
        """Free the context and the weights; a second call does nothing."""
        if self._context:
            self._api.llama_batch_free(self._batch)
            self._api.llama_free(self._context)
            self._context = None
        if self._model:
            self._api.llama_model_free(self._model)
            self._model = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
