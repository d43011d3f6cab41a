"""llama.cpp through llama-cpp-python's low-level API: loading, vocabulary facts, threads, log.

The only module, with `llamacpp.py` and `llama_batch.py`, that touches llama.cpp's C interface.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trsched.errors import EngineError

__all__ = [
    "LoadedModel",
    "VocabularyFacts",
    "api",
    "built_with_amx",
    "load_model",
    "recent_log",
    "vocabulary_facts",
]

# How libgomp's threads wait at each of a step's hundreds of barriers; it reads this when it is
# loaded (so before torch is). By default they spin for milliseconds: once anything else wants a
# core, as the server does, a step takes 20 times longer. A shorter spin costs a sleep and a wake-up
# each time: without any, a step on idle cores takes three times longer. "active" makes the spin
# hold also for several models' threads, which libgomp would else throttle to a tenth.
os.environ.setdefault("OMP_WAIT_POLICY", "active")
os.environ.setdefault("GOMP_SPINCOUNT", "1000")

try:
    import llama_cpp.llama_cpp as api
except ImportError as error:  # pragma: no cover - exercised by the packaging tests
    raise EngineError(
        f"the llamacpp engine needs llama-cpp-python ({error}): pip install 'trsched[llamacpp]'"
    ) from error

_LOG_LEVEL_WARN = 3
_UNUSED = 1 << 1  # LLAMA_TOKEN_ATTR_UNUSED
_recent_log: deque[str] = deque(maxlen=8)


@api.llama_log_callback  # type: ignore[untyped-decorator]
def _keep_recent(level: int, text: bytes, _user_data: object) -> None:
    if level >= _LOG_LEVEL_WARN and text.strip():
        _recent_log.append(text.decode("utf-8", "replace").strip())


_initialised = threading.Lock()
_backend_ready = False


def _init_backend() -> None:
    global _backend_ready
    with _initialised:
        if not _backend_ready:
            api.llama_log_set(_keep_recent, ctypes.c_void_p(0))
            api.llama_backend_init()
            _backend_ready = True


def built_with_amx() -> bool:
    """Whether this llama.cpp would multiply with AMX on this processor.

    Its tile configuration is not always written to memory, so it crashes at the first step
    (llama.cpp #20824 and #26954). A model keeps out of it by doing without repacked weights.
    """
    return b"AMX_INT8 = 1" in api.llama_print_system_info()


def recent_log() -> str:
    """llama.cpp's last warnings and errors, for our error messages."""
    return "; ".join(_recent_log)


class LoadedModel:
    """A model (or only its vocabulary) in memory, freed by `close`."""

    def __init__(self, pointer: Any, path: Path) -> None:
        self.pointer = pointer
        self.path = path
        self.vocab = api.llama_model_get_vocab(pointer)

    def tokenize(self, text: bytes, *, special: bool) -> list[int]:
        """Token ids of UTF-8 text, no beginning-of-text token added."""
        size = len(text) + 8
        buffer = (api.llama_token * size)()
        count = api.llama_tokenize(self.vocab, text, len(text), buffer, size, False, special)
        if count < 0:
            buffer = (api.llama_token * -count)()
            count = api.llama_tokenize(self.vocab, text, len(text), buffer, -count, False, special)
        if count < 0:
            raise EngineError("llama.cpp could not tokenize the text")
        return list(buffer[:count])

    def metadata(self, key: str) -> str | None:
        """A value of the GGUF's metadata as text."""
        buffer = ctypes.create_string_buffer(1 << 16)
        length = api.llama_model_meta_val_str(self.pointer, key.encode(), buffer, len(buffer))
        return None if length < 0 else buffer.value.decode("utf-8", "replace")

    def close(self) -> None:
        """Free the memory."""
        if self.pointer is not None:
            api.llama_model_free(self.pointer)
            self.pointer = None


def load_model(path: Path, *, vocab_only: bool = False, gpu_layers: int = 0) -> LoadedModel:
    """Load a GGUF file. Raises EngineError when it cannot be read or isn't a model."""
    if not path.is_file():
        raise EngineError(f"no such file: {path}")
    if not os.access(path, os.R_OK):
        raise EngineError(f"file cannot be read: {path}")
    _init_backend()
    params = api.llama_model_default_params()
    params.vocab_only = vocab_only
    params.n_gpu_layers = gpu_layers
    params.use_extra_bufts = not built_with_amx()
    _recent_log.clear()
    pointer = api.llama_model_load_from_file(os.fsencode(path), params)
    if not pointer:
        raise EngineError(f"not a GGUF model that llama.cpp can load: {path} ({recent_log()})")
    return LoadedModel(pointer, path)


@dataclass(frozen=True, slots=True)
class VocabularyFacts:
    """What a model's vocabulary and metadata say."""

    texts: Sequence[bytes]
    unused: Sequence[bool]
    pieces: Sequence[bytes]
    bos_id: int
    eos_id: int
    stop_ids: frozenset[int]
    chat_template: str | None
    context_length: int
    hidden_size: int
    kv_bytes_per_token: int

    def tokens_of(self, size: int) -> int:
        """How many of the first `size` ids are tokens: the last ones may be padding."""
        return max((i + 1 for i in range(size) if not self.unused[i]), default=0)

    def token_text(self, token_id: int) -> str:
        """A token's text as the vocabulary writes it; empty for no token."""
        return self.texts[token_id].decode("utf-8", "replace") if token_id >= 0 else ""


def vocabulary_facts(model: LoadedModel) -> VocabularyFacts:
    """Read everything a scheduler and a server need to know of a model."""
    vocab = model.vocab
    ids = range(api.llama_vocab_n_tokens(vocab))
    arch = model.metadata("general.architecture") or "llama"

    def number(key: str, default: int) -> int:
        text = model.metadata(f"{arch}.{key}")
        return default if text is None else int(text)

    hidden, heads = number("embedding_length", 0), number("attention.head_count", 1)
    kv_heads = number("attention.head_count_kv", heads)
    key, value = (number(f"attention.{kind}_length", hidden // heads) for kind in ("key", "value"))
    return VocabularyFacts(
        texts=[api.llama_vocab_get_text(vocab, i) for i in ids],
        unused=[bool(api.llama_vocab_get_attr(vocab, i) & _UNUSED) for i in ids],
        pieces=[_piece(vocab, i) for i in ids],
        bos_id=int(api.llama_vocab_bos(vocab)),
        eos_id=int(api.llama_vocab_eos(vocab)),
        stop_ids=frozenset(i for i in ids if api.llama_vocab_is_eog(vocab, i)),
        chat_template=model.metadata("tokenizer.chat_template"),
        context_length=number("context_length", 0),
        hidden_size=hidden,
        kv_bytes_per_token=2 * number("block_count", 0) * kv_heads * (key + value),  # f16
    )


def _piece(vocab: Any, token_id: int) -> bytes:
    buffer = ctypes.create_string_buffer(256)
    length = api.llama_token_to_piece(vocab, token_id, buffer, len(buffer), 0, False)
    if length < 0:
        buffer = ctypes.create_string_buffer(-length)
        length = api.llama_token_to_piece(vocab, token_id, buffer, len(buffer), 0, False)
    return buffer.raw[: max(length, 0)]
