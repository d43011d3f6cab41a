"""Input embeddings of tokens, read from a GGUF file row by row."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trsched.errors import EngineError


class EmbeddingTable:
    """The token embeddings of one model, each decoded when it is first asked for.

    llama.cpp's C interface hands out no tensor, hence the `gguf` package. Opening takes seconds
    (gguf reads the vocabulary, too), decoding half a millisecond a step; memory is taken only for
    the rows that were asked for. Raises EngineError when the file has no embeddings.
    """

    def __init__(self, path: Path) -> None:
        try:
            from gguf import GGUFReader, dequantize
        except ImportError as error:
            raise EngineError(
                "a router that reads token embeddings needs the gguf package: "
                "pip install 'trsched[llamacpp]'"
            ) from error
        found = [t for t in GGUFReader(path).tensors if t.name == "token_embd.weight"]
        if not found:
            raise EngineError(f"{path.name} has no token embeddings")
        self._stored = found[0].data
        self._type = found[0].tensor_type
        self._dequantize = dequantize
        columns, tokens = (int(size) for size in found[0].shape)
        self._rows = np.zeros((tokens, columns), dtype=np.float32)  # pages nobody wrote take none
        self._decoded = np.zeros(tokens, dtype=np.bool_)

    def __getitem__(self, token_ids: NDArray[np.int64]) -> NDArray[np.float32]:
        """`[n]` token ids → `[n, hidden]`."""
        new = token_ids[~self._decoded[token_ids]]
        if new.size:
            self._rows[new] = self._dequantize(self._stored[new], self._type)
            self._decoded[new] = True
        return self._rows[token_ids]
