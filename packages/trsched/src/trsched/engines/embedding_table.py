"""Input embeddings of tokens, read from a GGUF file row by row."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from trsched.errors import EngineError


class EmbeddingTable:
    """The token embeddings of one model. The file stays mapped; only rows asked for are decoded.

    llama.cpp's C interface hands out no tensor, hence the `gguf` package. Opening takes seconds
    (gguf reads the vocabulary, too), 16 rows 0.07 ms. Raises EngineError when there are none.
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
        self._rows = found[0].data
        self._type = found[0].tensor_type
        self._dequantize = dequantize

    def __getitem__(self, token_ids: NDArray[np.int64]) -> NDArray[np.float32]:
        """`[n]` token ids → `[n, hidden]`."""
        rows = self._dequantize(self._rows[token_ids], self._type)
        return cast("NDArray[np.float32]", np.ascontiguousarray(rows, dtype=np.float32))
